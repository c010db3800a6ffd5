import { sql } from 'kysely'
import { keepLapsed } from '../jobs/revive.ts'
import type { LockedJob } from '../store/locks.ts'
import type { Tx } from '../store/transaction.ts'
import { allRepeated, loadSteps, reopen } from './deploy-gate.ts'

/** What a lapse has its step do again, kept as it was. The step and its guards ask anew; that spends none of their retries. */
export async function askAnew(tx: Tx, job: LockedJob, runId: string): Promise<void> {
  const steps = await loadSteps(tx, [runId])
  const again = allRepeated(steps, ({ id }) => id === job.step_id)
  const ids = again.map(({ id }) => id)
  // The gate may have it synced anew too.
  const sync = steps.filter(({ kind, component }) => kind === 'sync' && component === job.component)
  const kept = [...new Set([...ids, ...sync.map(({ id }) => id)])]
  keepLapsed(tx, job, kept)
  tx.write(sql`
    update step set attempts = greatest(attempts - 1, 0) where id = any(${ids}) and job_id is not null`)
  reopen(tx, again)
}

/** Its steps and its deploy are what they were before it lapsed. Whoever was to be asked since then comes too late. */
export function restoreSteps(tx: Tx, { id, step_id, run_id, component }: LockedJob): void {
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
