import type { RunStatus, StepStatus } from './states.ts'

export interface StepState {
  key: string
  dependsOn: readonly string[]
  status: StepStatus
}

export interface Advance {
  /** Steps whose dependencies are all done. */
  start: string[]
  /** Steps that can never start in a run that ended. */
  cancel: string[]
  /** The status of the run after this, or undefined when it stays active. */
  end: Exclude<RunStatus, 'queued' | 'active'> | undefined
}

/** What may happen next in an active run. Independent branches go on when one fails; the run ends when nothing can move. */
export function advanceRun(steps: readonly StepState[], cancelRequested: boolean): Advance {
  const status = new Map(steps.map((s) => [s.key, s.status]))
  const isDone = (key: string) => status.get(key) === 'succeeded' || status.get(key) === 'skipped'
  const pending = steps.filter((s) => s.status === 'pending')
  const start = cancelRequested ? [] : pending.filter((s) => s.dependsOn.every(isDone)).map((s) => s.key)
  if (start.length > 0 || steps.some((s) => s.status === 'active'))
    return { start, cancel: [], end: undefined }
  return { start, cancel: pending.map((s) => s.key), end: endOf(steps, cancelRequested) }
}

function endOf(steps: readonly StepState[], cancelRequested: boolean): 'succeeded' | 'failed' | 'canceled' {
  if (steps.every((s) => s.status === 'succeeded' || s.status === 'skipped')) return 'succeeded'
  if (steps.some((s) => s.status === 'failed')) return 'failed'
  return cancelRequested || steps.some((s) => s.status === 'canceled') ? 'canceled' : 'failed'
}
