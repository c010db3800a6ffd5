import { sql, type RawBuilder } from 'kysely'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { lockLeaseWatch } from '../store/locks.ts'
import { anyOf, type Db } from '../store/statements.ts'
import { transact } from '../store/transaction.ts'

/** The right of an agent to report for a job, as it was given to it this time. */
export interface Lease {
  agentId: string
  jobId: string
  fence: number
}

/** The same text for the same lease. */
export function leaseOf({ agentId, jobId, fence }: Lease): string {
  return `${agentId}/${jobId}/${fence}`
}

/** Leases end by the clock of the database, so that server processes need not agree on the time. */
export function leaseFromNow({ config }: Context): RawBuilder<string> {
  return sql`clock_timestamp() + ${config.leaseSeconds}::float8 * interval '1 second'`
}

/** Renews what these agents hold; one statement for all of them. */
export async function extendLeases(context: Context, agentIds: string[]): Promise<void> {
  if (agentIds.length === 0) return
  await sql`
    update job set lease_until = ${leaseFromNow(context)}
    where agent_id = any(${agentIds}) and status in ('assigned', 'running')`.execute(context.db)
}

/**
 * Leases only run while somebody watches them: the time during which no server process looked (all dead, or Postgres
 * away) is added to every lease, so that agents get their grace to come back.
 */
export async function expireLeases(context: Context, watchEverySeconds: number): Promise<string[]> {
  return transact(context, async (tx) => {
    const gap = await lockLeaseWatch(tx)
    tx.write(sql`update lease_watch set watched_at = clock_timestamp()`)
    if (gap > watchEverySeconds * 3) {
      tx.write(sql`
        update job set lease_until = lease_until + ${gap}::float8 * interval '1 second'
        where status in ('assigned', 'running')`)
      return []
    }
    const lost = await tx.db
      .updateTable('job')
      .set({ status: 'lost' })
      .where('status', '=', anyOf(['assigned', 'running']))
      .where('lease_until', '<', sql<string>`clock_timestamp()`)
      .returning(['id', 'install_id', 'run_id', 'agent_id', 'fence', 'manifest_digest', 'lease_until'])
      .execute()
    for (const job of lost) {
      tx.audit(chainOf(job.install_id), {
        actor: { type: 'server', id: context.serverId },
        action: 'job.lost',
        subject: { type: 'job', id: job.id },
        outcome: 'failed',
        manifestDigest: job.manifest_digest,
        details: { agentId: job.agent_id, fence: job.fence, leaseUntil: job.lease_until },
      })
      tx.nudge(`job:${job.id}`, ...(job.run_id ? [`run:${job.run_id}`] : []))
    }
    return lost.map((job) => job.id)
  })
}

/** From now on somebody watches the leases. */
export async function ensureLeaseWatch(db: Db, nowMs: number): Promise<void> {
  await db
    .insertInto('lease_watch')
    .values({ watched_at: new Date(nowMs).toISOString() })
    .onConflict((c) => c.column('singleton').doNothing())
    .execute()
}
