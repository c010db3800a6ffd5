import type { KnownJob, SignedDocument } from '@tenon/core'
import { sql } from 'kysely'
import { isoNow, type Context } from '../context.ts'
import { chainOf } from '../operations/audit-chains.ts'
import { signAgain } from '../operations/job-control.ts'
import { transact, type Tx } from './transaction.ts'

export interface ClaimedJob {
  id: string
  fence: number
  document: SignedDocument
}

type ClaimedRow = {
  id: string
  fence: number
  install_id: string | null
  manifest: string
  manifest_key_id: string
  manifest_signature: string
  manifest_digest: string
  created_at: string
}

/** The queue: the oldest jobs of a pool that nobody else is taking right now become this agent's, under a lease. */
export async function claimJobs(
  context: Context,
  agent: { id: string; pool: string; sessionId: string },
  limit: number,
): Promise<ClaimedJob[]> {
  return transact(context, async (tx) => {
    // A session that was taken over cannot deliver any more; a claim for it would never reach the agent.
    const current = await tx.db
      .selectFrom('agent')
      .select('id')
      .where('id', '=', agent.id)
      .where('session_id', '=', agent.sessionId)
      .where('status', '=', 'enrolled')
      .forShare()
      .executeTakeFirst()
    if (!current) return []
    const { rows } = await sql<ClaimedRow>`
      update job set status = 'assigned', agent_id = ${agent.id}, assigned_at = ${tx.at},
        lease_until = ${isoNow(context, context.config.leaseSeconds)}
      where id in (
        select id from job where pool = ${agent.pool} and status = 'queued'
        order by id limit ${limit} for update skip locked)
      returning id, fence, install_id, manifest, manifest_key_id, manifest_signature, manifest_digest, created_at`.execute(
      tx.db,
    )
    const claimed: ClaimedJob[] = []
    for (const row of rows.toSorted((a, b) => (a.id < b.id ? -1 : 1)))
      claimed.push(await claim(context, tx, agent.id, row))
    return claimed
  })
}

async function claim(context: Context, tx: Tx, agentId: string, row: ClaimedRow): Promise<ClaimedJob> {
  const fresh = await freshlySigned(context, tx, row)
  tx.audit(chainOf(row.install_id), {
    actor: { type: 'server', id: context.serverId },
    action: 'job.assigned',
    subject: { type: 'job', id: row.id },
    outcome: 'ok',
    manifestDigest: fresh.manifest_digest,
    details: { agentId, fence: row.fence },
  })
  return {
    id: row.id,
    fence: row.fence,
    document: { text: fresh.manifest, keyId: fresh.manifest_key_id, signature: fresh.manifest_signature },
  }
}

/** A job that waited for long, or across a change of keys, leaves with a manifest that has time left. */
async function freshlySigned(context: Context, tx: Tx, row: ClaimedRow) {
  const { issuedAt } = JSON.parse(row.manifest) as { issuedAt: string }
  const age = context.now() - Date.parse(issuedAt)
  const halfLife = (context.config.manifestTtlSeconds * 1000) / 2
  if (age < halfLife && row.manifest_key_id === context.keys.current().keyId) return row
  const signed = await signAgain(context, tx, row.id, row.fence)
  await tx.db.updateTable('job').set(signed).where('id', '=', row.id).execute()
  return signed
}

/** What the server believes about the jobs that an agent holds, and about those that the agent names. */
export async function knownJobs(tx: Tx, agentId: string, named: string[]): Promise<KnownJob[]> {
  const rows = await tx.db
    .selectFrom('job')
    .select(['id', 'fence', 'status', 'agent_id', 'cancel_requested_at'])
    .where((eb) =>
      eb.or([
        eb.and([eb('agent_id', '=', agentId), eb('status', 'in', ['assigned', 'running', 'lost'])]),
        ...(named.length > 0 ? [eb('id', 'in', named)] : []),
      ]),
    )
    .execute()
  return rows.map((row) => ({
    jobId: row.id,
    fence: row.fence,
    status: row.status,
    agentId: row.agent_id,
    cancelRequested: row.cancel_requested_at !== null,
  }))
}

/** Renews what these agents hold; one statement for all of them. */
export async function extendLeases(context: Context, agentIds: string[]): Promise<void> {
  if (agentIds.length === 0) return
  await sql`
    update job set lease_until = ${isoNow(context, context.config.leaseSeconds)}
    where agent_id = any(${agentIds}) and status in ('assigned', 'running')`.execute(context.db)
}

/**
 * Leases only run while somebody watches them: the time during which no server process looked (all dead, or Postgres
 * away) is added to every lease, so that agents get their grace to come back.
 */
export async function expireLeases(context: Context, watchEverySeconds: number): Promise<string[]> {
  return transact(context, async (tx) => {
    const watched = await tx.db
      .selectFrom('lease_watch')
      .select('watched_at')
      .forUpdate()
      .executeTakeFirstOrThrow()
    const gapMs = context.now() - Date.parse(watched.watched_at)
    await tx.db.updateTable('lease_watch').set({ watched_at: tx.at }).execute()
    if (gapMs > watchEverySeconds * 3000) {
      await sql`update job set lease_until = lease_until + ${gapMs} * interval '1 millisecond' where status in ('assigned', 'running')`.execute(
        tx.db,
      )
      return []
    }
    const lost = await tx.db
      .updateTable('job')
      .set({ status: 'lost' })
      .where('status', 'in', ['assigned', 'running'])
      .where('lease_until', '<', tx.at)
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
