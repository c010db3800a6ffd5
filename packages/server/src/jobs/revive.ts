import {
  isReplaceable,
  type AuditFact,
  type JobStatus,
  type OwnFact,
  type RunStatus,
  type StepStatus,
} from '@tenon/core'
import { sql } from 'kysely'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { ownerOf } from '../ground/followers.ts'
import { lockJob, type LockedJob, lockJobRows } from '../store/locks.ts'
import type { Tx } from '../store/transaction.ts'
import { leaseFromNow } from './leases.ts'

/** Keeps what a lapse opens again as it was, in case the job had begun in time. */
export function keepLapsed(tx: Tx, job: LockedJob, stepIds: readonly string[]): void {
  tx.write(sql`
    insert into job_lapse (job_id, at, steps, deploys) values (${job.id}, ${tx.at},
      (select jsonb_agg(to_jsonb(step)) from step where id = any(${stepIds})),
      (select jsonb_agg(to_jsonb(deploy)) from deploy where run_id = ${job.run_id} and component = ${job.component}))
    on conflict (job_id) do update set at = excluded.at, steps = excluded.steps, deploys = excluded.deploys`)
}

export interface Lapsed {
  isReplaceable: boolean
  /** The jobs that were made in its place. */
  jobs: string[]
}

/** Of jobs that lapsed. What an earlier server let lapse was kept nowhere: there the one step counts. */
export async function loadLapsed(tx: Tx, jobIds: readonly string[]): Promise<Map<string, Lapsed>> {
  if (jobIds.length === 0) return new Map()
  const { rows } = await sql<LapsedRow>`
    select job.id, run.status as run_status, run.cancel_requested_at is not null as canceling,
      job_lapse.steps is not null as kept,
      array(select step.status from step where step.id = any(kept.ids)) as steps,
      coalesce(made.ids, '{}') as jobs, coalesce(made.statuses, '{}') as statuses
    from job left join run on run.id = job.run_id left join job_lapse on job_lapse.job_id = job.id
    cross join lateral (select case when job_lapse.steps is null then array[job.step_id]
      else array(select step ->> 'id' from jsonb_array_elements(job_lapse.steps) as step) end as ids) as kept
    cross join lateral (select array_agg(id) as ids, array_agg(status) as statuses from (
      select id, status from job as next where next.run_id = job.run_id and next.step_id = any(kept.ids)
      union all
      select next.id, next.status from build join job as next on next.id = build.job_id where build.id = job.build_id
    ) as next where next.id > job.id and next.status <> 'canceled') as made
    where job.id = any(${jobIds}) and job.status = 'lapsed'`.execute(tx.db)
  return new Map(rows.map((row) => [row.id, { isReplaceable: mayGoOn(row), jobs: row.jobs }]))
}

type LapsedRow = {
  id: string
  run_status: RunStatus | null
  canceling: boolean
  kept: boolean
  steps: StepStatus[]
  jobs: string[]
  statuses: JobStatus[]
}

function mayGoOn({ run_status, canceling, kept, steps, statuses }: LapsedRow): boolean {
  // Without what was kept nobody waits for it any more, unless in its very place.
  if (!kept && statuses.length === 0) return false
  const run = run_status === null ? null : { status: run_status, isCanceling: canceling }
  return isReplaceable({ run, steps, jobs: statuses })
}

/** It had lapsed here while its agent, which was away, had started it in time. What asks anew was given to nobody yet. */
export async function reviveJob(context: Context, tx: Tx, jobId: string): Promise<boolean> {
  const job = await lockJob(tx, jobId)
  if (job?.status !== 'lapsed') return false
  const before = (await loadLapsed(tx, [jobId])).get(jobId)
  await lockJobRows(tx, before?.jobs ?? [])
  const lapsed = (await loadLapsed(tx, [jobId])).get(jobId)
  if (!lapsed?.isReplaceable) return false
  tx.write(sql`
    update job set status = 'canceled', reason = 'canceled', finished_at = ${tx.at},
      message = ${`job ${jobId}, which it was to replace, had started in time`}
    where id = any(${lapsed.jobs})`)
  tx.write(sql`
    update job set status = 'running', finished_at = null, message = '', lease_until = ${leaseFromNow(context)}
    where id = ${jobId}`)
  const owner = ownerOf(job)
  if (owner) context.followers.jobs[owner].revived(tx, job)
  for (const id of lapsed.jobs) {
    tx.audit(chainOf(job.install_id), factOf(job, 'job.canceled', id, { replacedBy: jobId }))
    tx.nudge(`job:${id}`)
  }
  tx.audit(chainOf(job.install_id), factOf(job, 'job.recovered', jobId, { fence: job.fence }))
  tx.nudge(`job:${jobId}`, ...(job.run_id ? [`run:${job.run_id}`] : []))
  return true
}

function factOf(
  job: LockedJob,
  action: 'job.canceled' | 'job.recovered',
  id: string,
  details: NonNullable<AuditFact['details']>,
): OwnFact<'job'> {
  return {
    actor: { type: 'agent', id: job.agent_id! },
    action,
    subject: { type: 'job', id },
    outcome: 'ok',
    manifestDigest: job.manifest_digest,
    details,
  }
}
