import type { Context } from '../context.ts'
import { applyTold, type Finished, type FinishVerdict, type Told } from '../jobs/finish.ts'
import { openSessions, type Handshake, type Opening } from '../agents/connect.ts'
import type { Started } from '../jobs/start.ts'
import { createBatcher } from '../store/batch.ts'
import { claimJobs, type Claim, type Claimed } from '../jobs/claim.ts'

/** What the sessions of this process do, many at a time in one transaction each. */
export interface JobDesk {
  open(opening: Opening): Promise<Handshake>
  claim(claim: Claim): Promise<Claimed>
  started(started: Started): Promise<void>
  finish(finished: Finished): Promise<FinishVerdict>
}

/** Beyond this a batch gains little, and holds its locks for longer. */
const BATCH = 100
/** While one transaction waits for the database, another is made ready. An agent's words stay in one, in their order. */
const CLERKS = 2

export function createJobDesk(context: Context): JobDesk {
  const clerks = Array.from({ length: CLERKS }, () =>
    createBatcher<Told, FinishVerdict>(BATCH, (told) => applyTold(context, told)),
  )
  const clerkOf = (agentId: string) => clerks[(agentId.codePointAt(agentId.length - 1) ?? 0) % CLERKS]!
  return {
    open: createBatcher<Opening, Handshake>(BATCH, (openings) => openSessions(context, openings)),
    claim: createBatcher<Claim, Claimed>(BATCH, (claims) => claimJobs(context, claims)),
    started: async (started) => void (await clerkOf(started.agentId)({ started })),
    finish: (finished) => clerkOf(finished.agent.id)({ finished }),
  }
}
