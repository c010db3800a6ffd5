import type { Context } from '../context.ts'
import type { EndedJob, JobFollower } from '../ground/followers.ts'
import type { LockedJob } from '../store/locks.ts'
import type { Tx } from '../store/transaction.ts'
import { advanceRuns } from './advance.ts'
import { requireGateKept } from './deploy-gate.ts'
import { endSteps } from './steps-ended.ts'
import { askAnew, restoreSteps } from './steps-lapsed.ts'

/** What becomes of a step, and of its run, by what becomes of its job. */
export const followStepJobs: JobFollower = {
  async requireMayEnd(tx, job, outcome) {
    if (outcome === 'succeeded' && job.run_id && job.step_id)
      await requireGateKept(tx, job.run_id, job.step_id, 'settled as succeeded')
  },
  started: () => undefined,
  ended: stepsEnded,
  lapsed: stepLapsed,
  revived: restoreSteps,
}

async function stepsEnded(context: Context, tx: Tx, ended: readonly EndedJob[]): Promise<void> {
  const ofRuns = ended.filter(({ job }) => job.run)
  if (ofRuns.length === 0) return
  await endSteps(context, tx, ofRuns)
  await advanceRuns(context, tx, [...new Set(ofRuns.map(({ job }) => job.run!))])
}

async function stepLapsed(context: Context, tx: Tx, job: LockedJob): Promise<void> {
  if (!job.run) return
  await askAnew(tx, job, job.run.id)
  await advanceRuns(context, tx, [job.run])
}
