import type { AuditFact, OwnFact } from '@tenon/core'
import { sql } from 'kysely'
import { chainOf } from '../audit/chains.ts'
import { isoNow, type Context } from '../context.ts'
import { ownerOf } from '../ground/followers.ts'
import { isDatabaseAway } from '../store/database.ts'
import { lockJob, type LockedJob } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { settleJob } from './end.ts'

/** The word that a job has started may still be on its way, and clocks differ. */
const GRACE_SECONDS = 15
/** An earlier agent that dropped what it held answers nothing; its clock is no further off than this. */
const ANSWER_SECONDS = 600

/** Where jobs are held for a short while only, it is short too. */
function graceSeconds({ config }: Pick<Context, 'config'>): number {
  return Math.min(GRACE_SECONDS, config.holdSeconds / 2)
}

/** Held jobs up to this one's last moment should have started or been told of by now. */
export function overdueSince(context: Pick<Context, 'config' | 'now'>): string {
  return isoNow(context, -graceSeconds(context))
}

/**
 * Jobs that were held until they might not start any more, also where their agent never came back, or is no longer the
 * install's. One that is connected is told first (`control.ts` sends the cancel), and lapses by its answer or when the
 * session ends: a word that it has begun may be on its way.
 */
export async function lapseOverdueJobs(context: Context): Promise<void> {
  const { rows } = await sql<{ job_id: string; agent_id: string; asked: boolean }>`
    select job_id, agent_id,
      session_id is not null and status = 'enrolled' and start_before > ${isoNow(context, -ANSWER_SECONDS)} as asked
    from job_hold join agent on agent.id = agent_id
    where start_before < ${overdueSince(context)} or status <> 'enrolled'
    order by asked, job_id limit 100`.execute(context.db)
  for (const { job_id, agent_id, asked } of rows) {
    if (asked) {
      context.hub.nudge([`agent:${agent_id}`])
      continue
    }
    try {
      await transact(context, (tx) => lapseJob(context, tx, job_id))
    } catch (error) {
      if (isDatabaseAway(error)) throw error
      context.log.error({ err: error, jobId: job_id }, 'a held job could not lapse; it is tried again')
    }
  }
}

/** Whether a job's last moment to start is over, so that its agent's word of a cancel is the answer to ours. */
export async function isOverdue(context: Context, tx: Tx, jobId: string): Promise<boolean> {
  const { rows } = await sql`
    select from job_hold where job_id = ${jobId} and start_before < ${overdueSince(context)}`.execute(tx.db)
  return rows.length > 0
}

/** Nothing failed: its step, or its build, asks anew with another job, which passes the gate once more. */
export async function lapseJob(
  context: Context,
  tx: Tx,
  jobId: string,
  details: AuditFact['details'] = {},
): Promise<void> {
  const job = await lockJob(tx, jobId)
  if (job?.status !== 'held') return
  if (job.cancel_requested_at !== null) return endCanceled(context, tx, job)
  tx.write(sql`
    update job set status = 'lapsed', finished_at = ${tx.at}, message = 'it was held until it might not start any more'
    where id = ${job.id}`)
  tx.write(sql`delete from job_hold where job_id = ${job.id}`)
  tx.audit(chainOf(job.install_id), lapsedFact(context, job, details))
  tx.nudge(`job:${job.id}`)
  const owner = ownerOf(job)
  if (owner) await context.followers.jobs[owner].lapsed(context, tx, job)
}

async function endCanceled(context: Context, tx: Tx, job: LockedJob): Promise<void> {
  const message = 'canceled while its agent held it'
  const ending = {
    outcome: 'canceled' as const,
    reason: 'canceled',
    exitCode: null,
    message,
    result: {},
    outputs: {},
  }
  await settleJob(context, tx, job, ending, { actor: { type: 'server', id: context.serverId } })
}

function lapsedFact(
  { serverId }: Pick<Context, 'serverId'>,
  job: LockedJob,
  details: AuditFact['details'],
): OwnFact<'job'> {
  return {
    actor: { type: 'server', id: serverId },
    action: 'job.lapsed',
    subject: { type: 'job', id: job.id },
    outcome: 'ok',
    manifestDigest: job.manifest_digest,
    details: { agentId: job.agent_id, fence: job.fence, ...details },
  }
}
