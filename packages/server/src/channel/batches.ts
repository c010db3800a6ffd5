import { openSessions, type Handshake, type Opening } from '../agents/connect.ts'
import type { Context } from '../context.ts'
import { claimJobs, type Claim, type Claimed } from '../jobs/claim.ts'
import { applyTold, type Finished, type FinishVerdict, type Told } from '../jobs/finish.ts'
import type { Started } from '../jobs/start.ts'
import { createBatcher } from '../store/batch.ts'

/** What the connections of this process do, many at a time in one transaction each. */
export interface Batches {
  open(opening: Opening): Promise<Handshake>
  claim(claim: Claim): Promise<Claimed>
  started(started: Started): Promise<void>
  finish(finished: Finished): Promise<FinishVerdict>
}

/** Beyond this a batch gains little, and holds its locks for longer. */
const BATCH = 100
/** While one transaction waits for the database, another is made ready. An agent's words stay in one, in their order. */
const WRITERS = 2

export function createBatches(context: Context): Batches {
  const writers = Array.from({ length: WRITERS }, () =>
    createBatcher<Told, FinishVerdict>(BATCH, (told) => applyTold(context, told)),
  )
  const writerOf = (agentId: string) => writers[(agentId.codePointAt(agentId.length - 1) ?? 0) % WRITERS]!
  return {
    open: createBatcher<Opening, Handshake>(BATCH, (openings) => openSessions(context, openings)),
    claim: createBatcher<Claim, Claimed>(BATCH, (claims) => claimJobs(context, claims)),
    started: async (started) => void (await writerOf(started.agentId)({ started })),
    finish: (finished) => writerOf(finished.agent.id)({ finished }),
  }
}
