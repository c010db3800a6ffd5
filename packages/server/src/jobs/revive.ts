import { isReplaceable, type AuditFact, type JobStatus, type RunStatus, type StepStatus } from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { leaseFromNow } from './leases.ts'
import type { Tx } from '../store/transaction.ts'
import { chainOf } from '../audit/chains.ts'
import { allRepeated, loadSteps, reopen } from '../runs/deploy-gate.ts'
import { lockJob, type LockedJob } from './end.ts'

/** What a lapse has its step do again, kept as it was. The step and its guards ask anew; that spends none of their retries. */
export async function askAnew(tx: Tx, job: LockedJob, runId: string): Promise<void> {
  const steps = await loadSteps(tx, [runId])
  const again = allRepeated(steps, ({ id }) => id === job.step_id)
  const ids = again.map(({ id }) => id)
  // The gate may have it synced anew too.
  const sync = steps.filter(({ kind, component }) => kind === 'sync' && component === job.component)
  const kept = [...new Set([...ids, ...sync.map(({ id }) => id)])]
  tx.write(sql`
    insert into job_lapse (job_id, at, steps, deploys) values (${job.id}, ${tx.at},
      (select jsonb_agg(to_jsonb(step)) from step where id = any(${kept})),
      (select jsonb_agg(to_jsonb(deploy)) from deploy where run_id = ${runId} and component = ${job.component}))
    on conflict (job_id) do update set at = excluded.at, steps = excluded.steps, deploys = excluded.deploys`)
  tx.write(sql`
    update step set attempts = greatest(attempts - 1, 0) where id = any(${ids}) and job_id is not null`)
  reopen(tx, again)
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
  await sql`select from job where id = any(${before?.jobs ?? []}) order by id for update`.execute(tx.db)
  const lapsed = (await loadLapsed(tx, [jobId])).get(jobId)
  if (!lapsed?.isReplaceable) return false
  tx.write(sql`
    update job set status = 'canceled', reason = 'canceled', finished_at = ${tx.at},
      message = ${`job ${jobId}, which it was to replace, had started in time`}
    where id = any(${lapsed.jobs})`)
  tx.write(sql`
    update job set status = 'running', finished_at = null, message = '', lease_until = ${leaseFromNow(context)}
    where id = ${jobId}`)
  if (job.build_id !== null)
    tx.write(sql`update build set job_id = ${jobId}, status = 'running' where id = ${job.build_id}`)
  if (job.step_id !== null) restoreSteps(tx, job)
  for (const id of lapsed.jobs) {
    tx.audit(chainOf(job.install_id), factOf(job, 'job.canceled', id, { replacedBy: jobId }))
    tx.nudge(`job:${id}`)
  }
  tx.audit(chainOf(job.install_id), factOf(job, 'job.recovered', jobId, { fence: job.fence }))
  tx.nudge(`job:${jobId}`, ...(job.run_id ? [`run:${job.run_id}`] : []))
  return true
}

/** Its steps and its deploy are what they were before it lapsed. Whoever was to be asked since then comes too late. */
function restoreSteps(tx: Tx, { id, step_id, run_id, component }: LockedJob): void {
  tx.write(sql`update step set status = 'active', job_id = ${id}, not_before = null where id = ${step_id}`)
  tx.write(sql`
    update step set status = 'skipped', message = 'the deploy had started before', finished_at = ${tx.at}
    where run_id = ${run_id} and component = ${component} and kind = 'approval' and status in ('pending', 'active')
      and not exists (select from job_lapse, jsonb_array_elements(steps) as kept
        where job_id = ${id} and kept ->> 'id' = step.id)`)
  tx.write(sql`
    update step set status = s.status, job_id = s.job_id, not_before = s.not_before, started_at = s.started_at,
      finished_at = s.finished_at, asked = s.asked, message = s.message, attempts = s.attempts
    from job_lapse, jsonb_populate_recordset(null::step, job_lapse.steps) as s
    where job_lapse.job_id = ${id} and step.id = s.id`)
  tx.write(sql`
    update deploy set status = d.status, finished_at = d.finished_at
    from job_lapse, jsonb_populate_recordset(null::deploy, job_lapse.deploys) as d
    where job_lapse.job_id = ${id} and deploy.id = d.id`)
}

function factOf(
  job: LockedJob,
  action: string,
  id: string,
  details: NonNullable<AuditFact['details']>,
): AuditFact {
  return {
    actor: { type: 'agent', id: job.agent_id! },
    action,
    subject: { type: 'job', id },
    outcome: 'ok',
    manifestDigest: job.manifest_digest,
    details,
  }
}
