import type { JobStatus, RunStatus, StepStatus } from './states.ts'

/** What has become of a job that lapsed: what its lapse opened again, and the jobs that were made for that. */
export interface LapsedJob {
  /** Of the run, with whether it is asked to end; null where the job belongs to none. */
  run: { status: RunStatus; isCanceling: boolean } | null
  steps: readonly StepStatus[]
  jobs: readonly JobStatus[]
}

/** Pure: whether it may go on after all, since its agent had started it in time and nobody has done anything in its place. */
export function isReplaceable({ run, steps, jobs }: LapsedJob): boolean {
  if (run !== null && (run.status !== 'active' || run.isCanceling)) return false
  const isLeftAlone = steps.every((status) => !['failed', 'canceled', 'skipped'].includes(status))
  return isLeftAlone && jobs.every((status) => status === 'queued')
}
