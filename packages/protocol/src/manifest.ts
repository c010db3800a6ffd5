import {
  AGENT_ROLES,
  flatManifest,
  JOB_KINDS,
  MAX_MANIFEST_LIFE_SECONDS,
  MANIFEST_VERSION,
  NETWORK_MODES,
  parseDocument,
  type JobManifest,
  type Json,
  type StandingManifest,
} from '@tenon/core'
import { z } from 'zod'
import { componentJobConfig } from './component-job.ts'
import {
  digest,
  handingOn,
  id,
  json,
  jsonObject,
  name,
  partName,
  repository,
  text,
  timestamp,
} from './scalars.ts'

const manifestTarget = handingOn({ role: z.enum(AGENT_ROLES), installId: id.nullable() })

const ofEveryOperation = {
  plugin: handingOn({ name: partName, repository, digest: digest.nullable() }),
  component: partName.nullable(),
  artifacts: z.array(handingOn({ name: z.string().max(128), repository, digest })).max(100),
  approvedPlan: digest.nullable(),
  configDigest: digest,
}

/** What stands in `shape` must hold where it is there; the rest is for the plugin, which may know more than we do. */
function operation<Name extends string>(operationName: Name, shape: z.ZodRawShape) {
  const config = z.object(shape).partial().catchall(json)
  return handingOn({
    operation: z.literal(operationName),
    ...ofEveryOperation,
    config: config as unknown as z.ZodType<{ [key: string]: Json }, { [key: string]: Json }>,
  })
}

const buildConfig = { component: jsonObject, repository, images: json, source: json }
const syncConfig = { component: jsonObject }
const sandboxConfig = { action: z.enum(['create', 'destroy']), installId: id, installName: name }

/** By kind, each with the configuration that its plugin is given. */
const manifestOperation = z.discriminatedUnion('operation', [
  operation('build', buildConfig),
  operation('sync', syncConfig),
  operation('sandbox', sandboxConfig),
  operation('plan', componentJobConfig.shape),
  operation('deploy', componentJobConfig.shape),
  operation('destroy', componentJobConfig.shape),
  operation('status', componentJobConfig.shape),
  operation('logs', componentJobConfig.shape),
  operation('debug', componentJobConfig.shape),
  operation('action', componentJobConfig.shape),
])

const manifestLimits = handingOn({
  memoryBytes: z.int().positive(),
  cpus: z.number().positive(),
  pids: z.int().positive(),
  timeoutSeconds: z.int().positive(),
  graceSeconds: z.int().nonnegative(),
})

/** `host:port`, or `server`. */
const networkName = z
  .string()
  .max(260)
  .regex(/^(server|\[?[A-Za-z0-9_.:*-]+\]?:\d{1,5})$/, 'must be host:port')

const jobNetwork = handingOn({ mode: z.enum(NETWORK_MODES), names: z.array(networkName).max(500) })

const common = {
  version: z.literal(MANIFEST_VERSION),
  serverId: z.string().max(128),
  kind: z.enum(JOB_KINDS),
  target: manifestTarget,
  role: text(128).nullable(),
  network: jobNetwork,
  requires: z.array(handingOn({ feature: text(64), since: text(20) })).max(50),
  operations: z.array(manifestOperation).min(1).max(50),
  limits: manifestLimits,
  content: digest,
  issuedAt: timestamp,
  notBefore: timestamp,
  expiresAt: timestamp,
}

/** In the form that is read: what jobs get from the job API. */
export const jobManifest = handingOn({
  ...common,
  jobId: id,
  fence: z.int().positive(),
}) satisfies z.ZodType<JobManifest>

/** As far as it can be read; what cannot is as if it were not there. */
function whatThereIs<Shape extends z.ZodRawShape>(shape: Shape) {
  const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)
  return z.preprocess((value) => (isObject(value) ? value : {}), z.looseObject(shape))
}

const startedManifest = whatThereIs({
  kind: z.string().catch('other'),
  target: manifestTarget.catch({ role: 'install', installId: null }),
  network: jobNetwork.catch({ mode: 'internal', names: [] }),
  operations: z
    .array(
      whatThereIs({
        component: partName.nullable().catch(null),
        artifacts: ofEveryOperation.artifacts.catch([]),
        approvedPlan: digest.nullable().catch(null),
        config: jsonObject.catch({}),
      }),
    )
    .catch([]),
  limits: whatThereIs({
    memoryBytes: z.number().catch(0),
    cpus: z.number().catch(0),
    timeoutSeconds: z.number().catch(MAX_MANIFEST_LIFE_SECONDS),
    graceSeconds: z.number().catch(10),
  }),
  expiresAt: z.string().catch(''),
})

/**
 * Of a job that runs already, written by a later version of the agent: enough to watch it, to stop it and to report its
 * end. It gets nothing by what is not understood.
 */
export function readStartedManifest(text: string, job: { jobId: string; fence: number }): JobManifest {
  const signed = parseDocument(text)
  const { jobId, fence } = job
  return { ...startedManifest.parse(flatManifest(signed) ?? signed), jobId, fence } as unknown as JobManifest
}

export const standingManifest = handingOn({
  ...common,
  standingId: id,
  schedule: z.string().max(200),
  maxRuns: z.int().positive(),
}) satisfies z.ZodType<StandingManifest>

/** What was signed, in the form that is read; undefined when it is no manifest of a version that is known here. */
export function readManifest(text: string): JobManifest | undefined {
  try {
    return jobManifest.safeParse(flatManifest(JSON.parse(text))).data
  } catch {
    return undefined
  }
}
