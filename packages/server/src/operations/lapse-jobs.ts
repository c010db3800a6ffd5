import { keptManifest, type AuditFact } from '@tenon/core'
import { sql } from 'kysely'
import { isoNow, type Context } from '../context.ts'
import { leaseFromNow } from '../store/leases.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { advanceRuns } from './advance-run.ts'
import { chainOf } from './audit-chains.ts'
import { createJob } from './create-job.ts'
import { repeatSteps } from './deploy-gate.ts'
import { lockJob, settleJob, type LockedJob } from './settle-job.ts'

/** The word that a job has started may still be on its way, and clocks differ. */
const GRACE_SECONDS = 15

/** Where jobs are held for a short while only, it is short too. */
function graceSeconds({ config }: Pick<Context, 'config'>): number {
  return Math.min(GRACE_SECONDS, config.holdSeconds / 2)
}

/** Jobs that were held until they might not start any more, also where their agent never came back. */
export async function lapseOverdueJobs(context: Context): Promise<void> {
  const { rows } = await sql<{ job_id: string }>`
    select job_id from job_hold where start_before < ${isoNow(context, -graceSeconds(context))} order by job_id limit 100`.execute(
    context.db,
  )
  for (const { job_id } of rows) await transact(context, (tx) => lapseJob(context, tx, job_id))
}

/** Nothing failed: its step, or its build, asks anew with another job, which passes the gate once more. */
export async function lapseJob(context: Context, tx: Tx, jobId: string): Promise<void> {
  const job = await lockJob(tx, jobId)
  if (job?.status !== 'held') return
  if (job.cancel_requested_at !== null) return endCanceled(context, tx, job)
  tx.write(sql`
    update job set status = 'lapsed', finished_at = ${tx.at}, message = 'it was held until it might not start any more'
    where id = ${job.id}`)
  tx.write(sql`delete from job_hold where job_id = ${job.id}`)
  tx.audit(chainOf(job.install_id), lapsedFact(context, job))
  tx.nudge(`job:${job.id}`)
  if (job.build_id !== null) await buildAnew(context, tx, job, job.build_id)
  if (job.step_id === null || !job.run) return
  await repeatSteps(tx, job.run.id, ({ id }) => id === job.step_id)
  await advanceRuns(context, tx, [job.run])
}

/** It had lapsed here while its agent, which was away, had started it in time. What asks anew was given to nobody yet. */
export async function reviveJob(context: Context, tx: Tx, jobId: string): Promise<void> {
  const job = await lockJob(tx, jobId)
  if (job?.status !== 'lapsed') return
  const { rows } = await sql<{ id: string }>`
    update job set status = 'canceled', reason = 'canceled', finished_at = ${tx.at},
      message = ${`job ${jobId}, which it was to replace, had started in time`}
    where step_id = ${job.step_id} and id > ${jobId} and status = 'queued' returning id`.execute(tx.db)
  if (rows.length === 0) return
  await sql`
    update job set status = 'running', finished_at = null, message = '', lease_until = ${leaseFromNow(context)}
    where id = ${jobId}`.execute(tx.db)
  tx.write(sql`update step set job_id = ${jobId} where id = ${job.step_id}`)
  const actor = { type: 'agent' as const, id: job.agent_id! }
  const fact = { actor, outcome: 'ok' as const, manifestDigest: job.manifest_digest }
  const chain = chainOf(job.install_id)
  for (const { id } of rows)
    tx.audit(chain, {
      ...fact,
      action: 'job.canceled',
      subject: { type: 'job', id },
      details: { replacedBy: jobId },
    })
  tx.audit(chain, {
    ...fact,
    action: 'job.recovered',
    subject: { type: 'job', id: jobId },
    details: { fence: job.fence },
  })
}

async function buildAnew(context: Context, tx: Tx, job: LockedJob, buildId: string): Promise<void> {
  const row = await tx.db
    .selectFrom('job')
    .select('manifest')
    .where('id', '=', job.id)
    .executeTakeFirstOrThrow()
  const { operations, limits, role, network } = keptManifest(row.manifest)
  const plan = { kind: job.kind, role: job.role, installId: job.install_id, operations, limits }
  const jobId = createJob(context, tx, { ...plan, cloudRole: role, network }, { buildId })
  tx.write(tx.db.updateTable('build').set({ job_id: jobId }).where('id', '=', buildId))
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

function lapsedFact({ serverId }: Pick<Context, 'serverId'>, job: LockedJob): AuditFact {
  return {
    actor: { type: 'server', id: serverId },
    action: 'job.lapsed',
    subject: { type: 'job', id: job.id },
    outcome: 'ok',
    manifestDigest: job.manifest_digest,
    details: { agentId: job.agent_id, fence: job.fence },
  }
}
