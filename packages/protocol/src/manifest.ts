import { AGENT_ROLES, JOB_KINDS, OPERATIONS, type JobManifest, type StandingManifest } from '@tenon/core'
import { z } from 'zod'
import { digest, id, jsonObject, partName, repository, timestamp } from './scalars.ts'

export const manifestTarget = z.strictObject({ role: z.enum(AGENT_ROLES), installId: id.nullable() })

export const manifestOperation = z.strictObject({
  operation: z.enum(OPERATIONS),
  plugin: z.strictObject({ name: partName, repository, digest: digest.nullable() }),
  component: partName.nullable(),
  artifacts: z.array(z.strictObject({ name: z.string().max(128), repository, digest })).max(100),
  approvedPlan: digest.nullable(),
  config: jsonObject,
})

export const manifestLimits = z.strictObject({
  memoryBytes: z.int().positive(),
  cpus: z.number().positive(),
  pids: z.int().positive(),
  timeoutSeconds: z.int().positive(),
  graceSeconds: z.int().nonnegative(),
})

const common = {
  version: z.literal(1),
  serverId: z.string().max(128),
  kind: z.enum(JOB_KINDS),
  target: manifestTarget,
  operations: z.array(manifestOperation).min(1).max(50),
  limits: manifestLimits,
  issuedAt: timestamp,
  notBefore: timestamp,
  expiresAt: timestamp,
}

export const jobManifest = z.strictObject({
  ...common,
  jobId: id,
  fence: z.int().positive(),
}) satisfies z.ZodType<JobManifest>

export const standingManifest = z.strictObject({
  ...common,
  standingId: id,
  schedule: z.string().max(200),
  maxRuns: z.int().positive(),
}) satisfies z.ZodType<StandingManifest>

export const signedDocument = z.strictObject({
  text: z.string().max(1_000_000),
  keyId: id,
  signature: z.base64(),
})
