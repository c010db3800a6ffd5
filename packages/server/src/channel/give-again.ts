import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { GivenJob } from '../ground/slots.ts'
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
  const waiting = await stillAssigned(context, overdue)
  for (const { session, job } of overdue) {
    // It may have spoken while the database was asked.
    if (!session.dispatcher.isUnheard(job.id)) continue
    if (waiting.has(leaseOf(session.agentId, job))) session.dispatcher.give(job)
    else session.dispatcher.heard(job.id)
  }
}

async function stillAssigned(
  context: Context,
  overdue: readonly { session: Session; job: GivenJob }[],
): Promise<Set<string>> {
  const { rows } = await sql<{ id: string; fence: number; agent_id: string }>`
    select id, fence, agent_id from job
    where id = any(${overdue.map(({ job }) => job.id)}) and status = 'assigned'`.execute(context.db)
  return new Set(rows.map((row) => leaseOf(row.agent_id, row)))
}

function leaseOf(agentId: string, job: { id: string; fence: number }): string {
  return `${agentId}/${job.id}/${job.fence}`
}
