import { AGENT_ROLES, APPROVAL_OPTIONS, JOB_END_REASONS, JOB_KINDS, RUN_KINDS, USER_ROLES } from '@tenon/core'
import { z } from 'zod'
import { jobOutputs } from '../channel.ts'
import { planChange, planResult, policyFinding } from '../plan-result.ts'
import { buildableName, digest, id, jsonObject, name, openValue, partName, timestamp } from '../scalars.ts'

/** What the API shows. Statuses are the words of `core/states.ts`. */
export const waiting = z.object({
  code: z.string(),
  message: z.string(),
  since: timestamp,
  remedy: z.string().nullable(),
})

/** Who acts: a user, a service, or the server by itself. Names are not unique, ids are. */
export const who = z.object({ kind: z.string(), id: z.string(), name: z.string() })
export type Who = z.infer<typeof who>

/** What a plan found, for people: what is decided by it is decided by `planResult`, whose lists are closed. */
export const planView = planResult.extend({
  changes: z.array(planChange.extend({ action: openValue(planChange.shape.action.options) })),
  findings: z.array(policyFinding.extend({ outcome: openValue(policyFinding.shape.outcome.options) })),
})
export type PlanView = z.infer<typeof planView>

export const tokenView = z.object({
  id,
  name: z.string(),
  /** Whose it is. */
  principal: who.nullable().default(null),
  role: openValue(USER_ROLES),
  createdAt: timestamp,
  expiresAt: timestamp.nullable(),
  revokedAt: timestamp.nullable(),
  lastUsedAt: timestamp.nullable(),
})

export const appView = z.object({
  id,
  name,
  displayName: z.string(),
  description: z.string(),
  version: z.int(),
  components: z.array(
    z.object({
      name: partName,
      type: z.string(),
      dependencies: z.array(z.string()),
      artifact: digest.nullable(),
    }),
  ),
  createdAt: timestamp,
})

/** One immutable version of an app, without its content. */
export const appVersionView = z.object({ number: z.int(), digest, createdAt: timestamp })

export const buildView = z.object({
  id,
  app: name,
  appVersion: z.int(),
  /** `action:NAME` for an action. */
  component: buildableName,
  status: openValue(['queued', 'running', 'succeeded', 'failed', 'canceled']),
  jobId: id.nullable(),
  artifact: digest.nullable(),
  message: z.string(),
  createdAt: timestamp,
  finishedAt: timestamp.nullable(),
})

const installStatus = openValue([
  'new',
  'provisioning',
  'active',
  'failed',
  'deprovisioning',
  'deprovisioned',
])

export const installView = z.object({
  id,
  name,
  app: name,
  sandbox: z.string(),
  status: installStatus,
  approval: openValue(APPROVAL_OPTIONS),
  /** Without the sensitive ones, which the server does not have. */
  inputs: jsonObject,
  toggles: z.record(z.string(), z.boolean()),
  overrides: z.record(z.string(), jsonObject),
  agent: z
    .object({
      id,
      connected: z.boolean(),
      lastSeenAt: timestamp.nullable(),
      version: z.string(),
      /** Since when the customer lets it take no new jobs. */
      pausedSince: timestamp.nullable(),
    })
    .nullable(),
  components: z.array(
    z.object({
      name: partName,
      status: z.string(),
      artifact: digest.nullable(),
      deployedAt: timestamp.nullable(),
      outputs: jobOutputs,
      /** What a deploy would change of what is there though nobody decided it; null when nothing. */
      drift: z.object({ since: timestamp, jobId: id, plan: planView }).nullable(),
    }),
  ),
  activeRun: id.nullable(),
  createdAt: timestamp,
})

/** What somebody is asked about where no plan says it. */
export const asked = z.object({
  /** Of the artifact, the plugin, the configuration, and all inputs and overrides. Whoever approves names it. */
  digest,
  artifact: z.object({ repository: z.string(), digest }),
  /** The artifact that was deployed last; null: none is known to be there. */
  replaces: digest.nullable(),
  /** The configuration, inputs or overrides are not those of the last deploy that ended well. */
  configChanges: z.boolean(),
})
export type Asked = z.infer<typeof asked>

export const stepView = z.object({
  id,
  key: z.string(),
  kind: z.string(),
  component: z.string().nullable(),
  dependsOn: z.array(z.string()),
  status: openValue(['pending', 'active', 'succeeded', 'failed', 'canceled', 'skipped']),
  jobId: id.nullable(),
  message: z.string(),
  action: z.string().nullable(),
  attempts: z.int(),
  /** When it is tried again by itself. */
  notBefore: timestamp.nullable(),
  /** What a plan step found; its changes are in the result of its job. */
  plan: planView.omit({ changes: true, isCut: true }).nullable(),
  /** What an approval is about whose component makes no plans. */
  asked: asked.nullable(),
  /** Of an approval: who made the run that asks. */
  askedBy: who.nullable().default(null),
  progress: z.object({ message: z.string(), fraction: z.number().nullable() }).nullable(),
  startedAt: timestamp.nullable(),
  finishedAt: timestamp.nullable(),
})

export const runView = z.object({
  id,
  kind: openValue(RUN_KINDS),
  installId: id,
  install: name,
  status: openValue(['queued', 'active', 'succeeded', 'failed', 'canceled']),
  steps: z.array(stepView),
  waiting: z.array(waiting),
  /** The name of `creator`. */
  createdBy: z.string(),
  /** Null: a server of the version before wrote the name alone. */
  creator: who.nullable().default(null),
  createdAt: timestamp,
  finishedAt: timestamp.nullable(),
})
export type RunView = z.infer<typeof runView>

export const deployView = z.object({
  id,
  installId: id,
  component: partName,
  buildId: id,
  artifact: digest,
  runId: id,
  status: z.string(),
  createdAt: timestamp,
  finishedAt: timestamp.nullable(),
})

export const jobStatus = z.enum([
  'queued',
  'assigned',
  'held',
  'running',
  'succeeded',
  'failed',
  'canceled',
  'lapsed',
  'lost',
])

export const jobView = z.object({
  id,
  kind: openValue(JOB_KINDS),
  status: openValue(jobStatus.options),
  fence: z.int(),
  role: openValue(AGENT_ROLES),
  installId: id.nullable(),
  /** The install's name. */
  install: name.nullable().default(null),
  /** What it is about: a component, or `action:NAME`. */
  component: z.string().nullable().default(null),
  agentId: id.nullable(),
  stepId: id.nullable(),
  runId: id.nullable(),
  buildId: id.nullable(),
  manifestDigest: digest,
  reason: openValue(JOB_END_REASONS).nullable(),
  exitCode: z.int().nullable(),
  message: z.string(),
  result: jsonObject,
  confinement: z.string().nullable(),
  logBytes: z.int(),
  waiting: waiting.nullable(),
  createdAt: timestamp,
  assignedAt: timestamp.nullable(),
  startedAt: timestamp.nullable(),
  leaseUntil: timestamp.nullable(),
  finishedAt: timestamp.nullable(),
})
export type JobView = z.infer<typeof jobView>

export const agentView = z.object({
  id,
  role: openValue(AGENT_ROLES),
  installId: id.nullable(),
  /** The install's name. */
  install: name.nullable().default(null),
  status: openValue(['enrolled', 'replaced', 'revoked']),
  connected: z.boolean(),
  lastSeenAt: timestamp.nullable(),
  version: z.string(),
  hostname: z.string(),
  runtime: z.object({ name: z.string(), confinement: z.string(), warnings: z.array(z.string()) }).nullable(),
  slots: z.int(),
  running: z.int(),
  dropped: z.int(),
  createdAt: timestamp,
})

export const sealedEntry = z.object({ seq: z.int().positive(), body: z.string(), hash: z.string() })
export const signedHead = z.object({
  chain: z.string(),
  seq: z.int().nonnegative(),
  hash: z.string(),
  at: timestamp,
  keyId: id,
  signature: z.string(),
})
