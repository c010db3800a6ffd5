import { jobStates, type AuditFact, type OwnFact } from '@tenon/core'
import { sql } from 'kysely'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { ownerOf, type EndedJob, type Ending } from '../ground/followers.ts'
import type { LockedJob } from '../store/locks.ts'
import type { Tx } from '../store/transaction.ts'

export interface Settlement extends EndedJob {
  /** Told together with the end. */
  start?: { at: string; confinement: string } | undefined
  fact: Pick<AuditFact, 'actor'> & { details?: AuditFact['details'] }
}

export async function settleJob(
  context: Context,
  tx: Tx,
  job: LockedJob,
  ending: Ending,
  fact: Settlement['fact'],
): Promise<void> {
  return settleJobs(context, tx, [{ job, ending, fact }])
}

/** The one place where jobs end: their rows, the audit entries, and what their owners make of it. */
export async function settleJobs(
  context: Context,
  tx: Tx,
  settlements: readonly Settlement[],
): Promise<void> {
  if (settlements.length === 0) return
  for (const { job, ending } of settlements) {
    if (!jobStates.can(job.status, ending.outcome))
      throw new Error(`job ${job.id} cannot go from ${job.status} to ${ending.outcome}`)
  }
  endRows(tx, settlements)
  const held = settlements.filter(({ job }) => job.status === 'held').map(({ job }) => job.id)
  if (held.length > 0) tx.write(sql`delete from job_hold where job_id = any(${held})`)
  for (const settlement of settlements) {
    tx.audit(chainOf(settlement.job.install_id), factOf(settlement))
    tx.nudge(`job:${settlement.job.id}`)
  }
  for (const [owner, follower] of Object.entries(context.followers.jobs)) {
    const ended = settlements.filter(({ job }) => ownerOf(job) === owner)
    if (ended.length > 0) await follower.ended(context, tx, ended)
  }
}

function endRows(tx: Tx, settlements: readonly Settlement[]): void {
  const column = <V>(value: (ending: Ending) => V) => settlements.map(({ ending }) => value(ending))
  const starts = settlements.map(({ start }) => start)
  tx.write(sql`
    update job set status = e.status, reason = e.reason, exit_code = e.exit_code, message = e.message,
      result = e.result, finished_at = ${tx.at}, lease_until = null,
      started_at = coalesce(e.started_at, job.started_at), confinement = coalesce(e.confinement, job.confinement)
    from unnest(${settlements.map(({ job }) => job.id)}::text[], ${column((e) => e.outcome)}::text[],
      ${column((e) => e.reason)}::text[], ${column((e) => e.exitCode)}::int[], ${column((e) => e.message)}::text[],
      ${column((e) => JSON.stringify(e.result))}::jsonb[], ${starts.map((s) => s?.at ?? null)}::timestamptz[],
      ${starts.map((s) => s?.confinement ?? null)}::text[])
      as e(id, status, reason, exit_code, message, result, started_at, confinement)
    where job.id = e.id`)
}

function factOf({ job, ending, fact }: Settlement): OwnFact<'job'> {
  return {
    actor: fact.actor,
    action: `job.${ending.outcome}`,
    subject: { type: 'job', id: job.id },
    outcome: ending.outcome === 'succeeded' ? 'ok' : 'failed',
    manifestDigest: job.manifest_digest,
    details: {
      reason: ending.reason,
      exitCode: ending.exitCode,
      fence: job.fence,
      message: ending.message,
      ...fact.details,
    },
  }
}
