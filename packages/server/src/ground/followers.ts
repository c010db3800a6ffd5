import type { App, InstallStatus, JobEndReason, JobOutcome, Json, OpenValue } from '@tenon/core'
import type { Context } from '../context.ts'
import type { LockedJob, LockedRun } from '../store/locks.ts'
import type { Outputs } from '../store/schema.ts'
import type { Tx } from '../store/transaction.ts'

/**
 * Rooms to the right hear of what happens on their left within the same change. `start.ts` says who follows what; each
 * owner of jobs has one follower.
 */
export interface Followers {
  jobs: Record<JobOwner, JobFollower>
  runs: RunFollower
  installs: readonly InstallFollower[]
  apps: AppFollower
}

/** What a job was made for. */
export type JobOwner = 'step' | 'build'

export function ownerOf(job: Pick<LockedJob, 'step_id' | 'build_id'>): JobOwner | undefined {
  if (job.build_id !== null) return 'build'
  return job.step_id === null ? undefined : 'step'
}

export interface Ending {
  outcome: JobOutcome
  reason: OpenValue<JobEndReason>
  exitCode: number | null
  message: string
  result: { [key: string]: Json }
  outputs: Outputs
}

export interface EndedJob {
  job: LockedJob
  ending: Ending
}

export interface JobFollower {
  /** Refuses a person's word on how the job ended where it would stand for more than that. */
  requireMayEnd(tx: Tx, job: LockedJob, outcome: JobOutcome): Promise<void>
  started(tx: Tx, jobs: readonly { run_id: string | null; build_id: string | null }[]): void
  ended(context: Context, tx: Tx, ended: readonly EndedJob[]): Promise<void>
  /** It was held until it might not start any more: whoever wanted it asks anew. */
  lapsed(context: Context, tx: Tx, job: LockedJob): Promise<void>
  /** It had begun in time after all: everything is as it was before it lapsed. */
  revived(tx: Tx, job: LockedJob): void
}

export interface EndedRun {
  run: LockedRun
  end: 'succeeded' | 'failed' | 'canceled'
}

export interface RunFollower {
  started(tx: Tx, runs: readonly LockedRun[]): void
  /** `statuses` are those of the installs, which are locked. */
  ended(
    context: Context,
    tx: Tx,
    ended: readonly EndedRun[],
    statuses: ReadonlyMap<string, InstallStatus>,
  ): Promise<void>
  /** Whether the install's cluster holds some of its secrets. */
  keepsSecrets(tx: Tx, installId: string, keeps: boolean): void
}

/** Each hears of what concerns it, in the order of the table. */
export interface InstallFollower {
  created?(context: Context, tx: Tx, install: InstallOfApp): Promise<void>
  /** By which runs installs are gone from their customers' accounts. */
  removed?(context: Context, tx: Tx, by: readonly LockedRun[]): Promise<void>
  /** It goes out of every list, with all that it was told. */
  deleted?(tx: Tx, installId: string): void
}

export interface InstallOfApp {
  id: string
  app: { id: string; content: App }
}

export interface AppFollower {
  /** The app's row is locked, so that no other version comes between. */
  synced(context: Context, tx: Tx, app: { id: string; content: App }): Promise<void>
}
