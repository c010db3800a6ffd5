import type { Context } from '../context.ts'
import { leaseOf } from '../jobs/leases.ts'
import { stillAssigned } from '../jobs/queue.ts'
import type { Session } from './session.ts'

/**
 * A manifest that was garbled on its way names no job that the agent could refuse. What an agent is silent about for as
 * long as a heartbeat is given to it again, under the same fencing number: one that holds it already says so.
 */
export async function giveAgain(context: Context, sessions: readonly Session[]): Promise<void> {
  const since = context.now() - context.config.heartbeatSeconds * 1000
  const overdue = sessions.flatMap((session) =>
    session.dispatcher.unheard(since).map((job) => ({ session, job })),
  )
  if (overdue.length === 0) return
  const waiting = await stillAssigned(
    context.db,
    overdue.map(({ job }) => job.id),
  )
  for (const { session, job } of overdue) {
    // It may have spoken while the database was asked.
    if (!session.dispatcher.isUnheard(job.id)) continue
    if (waiting.has(leaseOf({ agentId: session.agentId, jobId: job.id, fence: job.fence })))
      session.dispatcher.give(job)
    else session.dispatcher.heard(job.id)
  }
}
