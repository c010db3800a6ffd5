import type { JobEndReason } from './job-end.ts'
import type { StepKind } from './plan.ts'
import type { RunStatus, StepStatus } from './states.ts'

export interface StepState {
  key: string
  dependsOn: readonly string[]
  status: StepStatus
  /** A step that is tried again waits until then. */
  notBeforeMs?: number
  /** Waits for a person, and so keeps no other from starting. */
  isIdle?: boolean
}

export interface Advance {
  /** Steps whose dependencies are all done: all that wait for a person, and of the others as many as may run at once. */
  start: string[]
  /** Steps that can never start in a run that ended. */
  cancel: string[]
  /** The status of the run after this, or undefined when it stays active. */
  end: Exclude<RunStatus, 'queued' | 'active'> | undefined
}

export interface Pace {
  nowMs: number
  /** How many steps of a run may be active at once. */
  atOnce: number
}

const UNBOUNDED: Pace = { nowMs: Infinity, atOnce: Infinity }

/** What may happen next in an active run. Independent branches go on when one fails; the run ends when nothing can move. */
export function advanceRun(
  steps: readonly StepState[],
  cancelRequested: boolean,
  { nowMs, atOnce }: Pace = UNBOUNDED,
): Advance {
  const status = new Map(steps.map((s) => [s.key, s.status]))
  const isDone = (key: string) => status.get(key) === 'succeeded' || status.get(key) === 'skipped'
  const pending = steps.filter((s) => s.status === 'pending')
  const ready = cancelRequested ? [] : pending.filter((s) => s.dependsOn.every(isDone))
  const active = steps.filter((s) => s.status === 'active')
  const busy = active.filter((s) => s.isIdle !== true).length
  const due = ready.filter((s) => (s.notBeforeMs ?? 0) <= nowMs)
  let left = atOnce - busy
  const start = due.filter((s) => s.isIdle === true || left-- > 0).map((s) => s.key)
  if (ready.length > 0 || active.length > 0) return { start, cancel: [], end: undefined }
  return { start, cancel: pending.map((s) => s.key), end: endOf(steps, cancelRequested) }
}

function endOf(steps: readonly StepState[], cancelRequested: boolean): 'succeeded' | 'failed' | 'canceled' {
  if (steps.every((s) => s.status === 'succeeded' || s.status === 'skipped')) return 'succeeded'
  if (steps.some((s) => s.status === 'failed')) return 'failed'
  return cancelRequested || steps.some((s) => s.status === 'canceled') ? 'canceled' : 'failed'
}

export interface FailedAttempt {
  kind: StepKind
  /** Counting this one. */
  attempts: number
  maxAutoRetries: number
  reason: string
  /** The plugin's own word that trying again is of no use. */
  isFinal: boolean
}

/** Milliseconds until a failed step is tried again by itself, or undefined when a person must look at it. */
export function retryDelay({ kind, attempts, maxAutoRetries, reason, isFinal }: FailedAttempt) {
  if (isFinal || attempts > maxAutoRetries || !RETRIED_KINDS.has(kind) || !RETRIED_REASONS.has(reason))
    return undefined
  return Math.min(FIRST_RETRY_MS * 2 ** (attempts - 1), LONGEST_RETRY_MS)
}

const FIRST_RETRY_MS = 5000
const LONGEST_RETRY_MS = 300_000
/** Operations of plugins are safe to repeat; what a person decides, or a sandbox, is not done twice unasked. */
const RETRIED_KINDS: ReadonlySet<StepKind> = new Set<StepKind>(['sync', 'plan', 'deploy', 'destroy'])
const RETRIED_REASONS: ReadonlySet<string> = new Set<JobEndReason>([
  'exit',
  'signal',
  'oom',
  'timeout',
  'start',
  'image',
])
