import type { StepKind } from '@tenon/core'
import { planOf } from '@tenon/protocol'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { EndedJob, Ending } from '../ground/followers.ts'
import type { LockedRun } from '../store/locks.ts'
import type { Tx } from '../store/transaction.ts'
import { retryFailedSteps } from './auto-retry.ts'
import { followPlans } from './plans-ended.ts'

interface EndedStep {
  kind: StepKind
  component: string
  run: LockedRun
  jobId: string
  ending: Ending
}

/** Steps change only under the lock of their run, so that what was read after it holds. */
export async function endSteps(context: Context, tx: Tx, ended: readonly EndedJob[]): Promise<void> {
  const active = ended.filter(({ job }) => job.step_status === 'active').map(asStep)
  tx.write(sql`
    update step set status = e.status, message = e.message, finished_at = ${tx.at}
    from unnest(${active.map(({ job }) => job.step_id)}::text[], ${active.map(({ ending }) => ending.outcome)}::text[],
      ${active.map(({ ending }) => ending.message)}::text[]) as e(id, status, message)
    where step.id = e.id`)
  const steps: EndedStep[] = active.flatMap(
    ({ job: { id: jobId, step_kind: kind, component, run }, ending }) =>
      component === null ? [] : [{ kind: kind!, component, run: run!, jobId, ending }],
  )
  const over = steps.filter(
    ({ kind, ending }) =>
      kind === 'deploy' || ((kind === 'sync' || kind === 'plan') && ending.outcome !== 'succeeded'),
  )
  if (over.length > 0) endDeploys(tx, over)
  const gone = steps.filter(({ kind, ending }) => kind === 'destroy' && ending.outcome === 'succeeded')
  if (gone.length > 0) removeComponents(tx, gone)
  const plans = steps.filter(({ kind, ending }) => kind === 'plan' && ending.outcome === 'succeeded')
  await followPlans(
    context,
    tx,
    plans.map((plan) => ({ ...plan, result: plan.ending.result })),
  )
  noteSecrets(context, tx, active)
  await retryFailedSteps(
    context,
    tx,
    active.filter(({ ending }) => ending.outcome === 'failed'),
  )
}

/** Pure: a plan step that ended well has named its plan, as a build has its artifact. */
function asStep({ job, ending }: EndedJob): EndedJob {
  const isPlan = job.step_kind !== 'plan' || ending.outcome !== 'succeeded' || planOf(ending.result)
  if (isPlan) return { job, ending }
  return {
    job,
    ending: { ...ending, outcome: 'failed', message: 'the plan job ended well but named no plan' },
  }
}

/** One that failed may have put some of them there. */
function noteSecrets(context: Context, tx: Tx, active: readonly EndedJob[]): void {
  for (const { job, ending } of active) {
    const installId = job.run!.install_id
    if (job.step_kind === 'secrets') context.followers.runs.keepsSecrets(tx, installId, true)
    if (job.step_kind === 'secrets-destroy' && ending.outcome === 'succeeded')
      context.followers.runs.keepsSecrets(tx, installId, false)
  }
}

function removeComponents(tx: Tx, gone: readonly EndedStep[]): void {
  tx.write(sql`
    delete from install_component as c
    using unnest(${gone.map((g) => g.run.install_id)}::text[], ${gone.map((g) => g.component)}::text[]) as g(install_id, component)
    where c.install_id = g.install_id and c.component = g.component`)
}

/** A failed sync or plan ends the deploy too, but leaves what is on the install as it was. */
function endDeploys(tx: Tx, steps: readonly EndedStep[]): void {
  tx.write(sql`
    with ended as (
      update deploy set status = e.status, finished_at = ${tx.at}
      from unnest(${steps.map((s) => s.run.id)}::text[], ${steps.map((s) => s.component)}::text[],
        ${steps.map((s) => s.ending.outcome)}::text[], ${steps.map((s) => s.kind)}::text[],
        ${steps.map((s) => JSON.stringify(s.ending.outputs))}::jsonb[]) as e(run_id, component, status, kind, outputs)
      where deploy.run_id = e.run_id and deploy.component = e.component
      returning deploy.*, e.kind, e.outputs
    ), bad as (
      update install_component as c set status = 'failed' from ended
      where ended.kind = 'deploy' and ended.status <> 'succeeded'
        and c.install_id = ended.install_id and c.component = ended.component
    )
    update install_component as c set status = 'deployed', build_id = ended.build_id, outputs = ended.outputs, drift = null,
      artifact_repository = ended.artifact_repository, artifact_digest = ended.artifact_digest, deployed_at = ${tx.at}
    from ended
    where ended.kind = 'deploy' and ended.status = 'succeeded'
      and c.install_id = ended.install_id and c.component = ended.component`)
}
