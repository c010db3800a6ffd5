import { stateTable } from './transitions.ts'

export const AGENT_ROLES = ['build', 'setup', 'install'] as const
export type AgentRole = (typeof AGENT_ROLES)[number]

export const JOB_KINDS = [
  'build',
  'sync',
  'plan',
  'deploy',
  'destroy',
  'sandbox',
  'action',
  'logs',
  'debug',
] as const
export type JobKind = (typeof JOB_KINDS)[number]

export type JobStatus =
  | 'queued'
  | 'assigned'
  | 'held'
  | 'running'
  | 'succeeded'
  | 'failed'
  | 'canceled'
  | 'lapsed'
  | 'lost'
/**
 * `held`: the agent said *not now*, and starts it when it may. `lapsed`: it might not start any more; another job asks anew.
 * `lost` means unknown: a late result, the agent's word that the container is gone, or a person ends it.
 */
export const jobStates = stateTable<JobStatus>({
  queued: ['assigned', 'canceled', 'failed'],
  assigned: ['queued', 'held', 'running', 'succeeded', 'failed', 'canceled', 'lost'],
  running: ['succeeded', 'failed', 'canceled', 'lost'],
  held: ['running', 'succeeded', 'failed', 'canceled', 'lapsed'],
  lost: ['held', 'running', 'succeeded', 'failed', 'canceled'],
  succeeded: [],
  failed: [],
  canceled: [],
  lapsed: [],
})
export const JOB_OUTCOMES = ['succeeded', 'failed', 'canceled'] as const
export type JobOutcome = (typeof JOB_OUTCOMES)[number]

export type StepStatus = 'pending' | 'active' | 'succeeded' | 'failed' | 'canceled' | 'skipped'
export const stepStates = stateTable<StepStatus>({
  pending: ['active', 'canceled', 'skipped'],
  active: ['succeeded', 'failed', 'canceled', 'pending'],
  failed: ['pending', 'skipped'],
  canceled: ['pending'],
  succeeded: [],
  skipped: [],
})

export type RunStatus = 'queued' | 'active' | 'succeeded' | 'failed' | 'canceled'
/** A failed or canceled run goes on when one of its steps is retried. */
export const runStates = stateTable<RunStatus>({
  queued: ['active', 'canceled'],
  active: ['succeeded', 'failed', 'canceled'],
  failed: ['active'],
  canceled: ['active'],
  succeeded: [],
})

export type BuildStatus = 'queued' | 'running' | 'succeeded' | 'failed' | 'canceled'
export const buildStates = stateTable<BuildStatus>({
  queued: ['running', 'succeeded', 'failed', 'canceled'],
  running: ['succeeded', 'failed', 'canceled'],
  succeeded: [],
  failed: [],
  canceled: [],
})

/** `skipped`: the plan showed that nothing would change. */
export type DeployStatus =
  | 'pending'
  | 'syncing'
  | 'deploying'
  | 'succeeded'
  | 'failed'
  | 'canceled'
  | 'skipped'
export const deployStates = stateTable<DeployStatus>({
  pending: ['syncing', 'deploying', 'canceled', 'failed', 'skipped'],
  syncing: ['deploying', 'failed', 'canceled', 'skipped'],
  deploying: ['succeeded', 'failed', 'canceled'],
  skipped: [],
  succeeded: [],
  failed: ['pending'],
  canceled: ['pending'],
})

export type InstallStatus = 'new' | 'provisioning' | 'active' | 'failed' | 'deprovisioning' | 'deprovisioned'
export const installStates = stateTable<InstallStatus>({
  new: ['provisioning', 'deprovisioned'],
  provisioning: ['active', 'failed', 'deprovisioning'],
  active: ['provisioning', 'deprovisioning'],
  failed: ['provisioning', 'active', 'deprovisioning'],
  deprovisioning: ['deprovisioned', 'failed'],
  deprovisioned: ['provisioning'],
})
