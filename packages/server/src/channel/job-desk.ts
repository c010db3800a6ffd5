import type { Context } from '../context.ts'
import { finishJobs, type Finished, type FinishVerdict } from '../operations/finish-job.ts'
import { openSessions, type Handshake, type Opening } from '../operations/open-session.ts'
import { createBatcher } from '../store/batch.ts'
import { claimJobs, startJobs, type Claim, type ClaimedJob, type Started } from '../store/jobs.ts'

/** What the sessions of this process do, many at a time in one transaction each. */
export interface JobDesk {
  open(opening: Opening): Promise<Handshake>
  claim(claim: Claim): Promise<ClaimedJob[]>
  started(started: Started): Promise<void>
  finish(finished: Finished): Promise<FinishVerdict>
}

/** Beyond this a batch gains little, and holds its locks for longer. */
const BATCH = 100

export function createJobDesk(context: Context): JobDesk {
  return {
    open: createBatcher<Opening, Handshake>(BATCH, (openings) => openSessions(context, openings)),
    claim: createBatcher<Claim, ClaimedJob[]>(BATCH, (claims) => claimJobs(context, claims)),
    started: createBatcher<Started, void>(BATCH, (started) => startJobs(context, started)),
    finish: createBatcher<Finished, FinishVerdict>(BATCH, (finished) => finishJobs(context, finished)),
  }
}
