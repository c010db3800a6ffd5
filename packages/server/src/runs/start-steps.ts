import type { StepKind } from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { nextTime } from '../ground/cron.ts'
import { createJobs, type PlannedJob } from '../jobs/create.ts'
import { poolOf } from '../jobs/sign-manifest.ts'
import type { Tx } from '../store/transaction.ts'
import { startApprovals } from './approvals.ts'
import { configDigest } from './component-config.ts'
import { throughGate } from './deploy-gate.ts'
import { planJobOfStep, roleOfStep, type StepSubject } from './job-of-step.ts'
import { loadGround, subjectOf, type GroundedStep, type StartingStep } from './load.ts'

/** Starts steps of any number of runs. Answers the runs of which one is already over, so that they may go on at once. */
export async function startSteps(
  context: Context,
  tx: Tx,
  starting: readonly StartingStep[],
): Promise<Set<string>> {
  const waits = starting.filter(({ step }) => step.kind === 'agent')
  const approvals = starting.filter(({ step }) => step.kind === 'approval')
  const works = starting.filter(({ step }) => step.kind !== 'agent' && step.kind !== 'approval')
  return new Set([
    ...(waits.length > 0 ? await waitForAgents(tx, waits) : []),
    ...(approvals.length > 0 ? await startApprovals(context, tx, approvals) : []),
    ...(works.length > 0 ? await queueJobs(context, tx, works) : []),
  ])
}

/** An agent that is connected is no longer waited for. */
async function waitForAgents(tx: Tx, waits: readonly StartingStep[]): Promise<string[]> {
  const { rows } = await sql<{ run_id: string; here: boolean }>`
    update step set started_at = ${tx.at}, status = case when a.here then 'succeeded' else 'active' end,
      finished_at = case when a.here then ${tx.at}::timestamptz end
    from (
      select w.id, exists (
        select from agent where install_id = w.install_id and status = 'enrolled' and session_id is not null
      ) as here
      from unnest(${waits.map((w) => w.step.id)}::text[], ${waits.map((w) => w.run.install_id)}::text[]) as w(id, install_id)
    ) as a
    where step.id = a.id returning step.run_id, a.here`.execute(tx.db)
  return rows.filter((row) => row.here).map((row) => row.run_id)
}

async function queueJobs(context: Context, tx: Tx, works: readonly StartingStep[]): Promise<string[]> {
  const [ground] = await Promise.all([
    loadGround(tx, works),
    tx.slots.confirm(
      tx.db,
      works.map(({ run, step }) => poolOf(roleOfStep(step.kind), run.install_id)),
    ),
  ])
  const wanted: (PlannedJob & { work: StartingStep; subject: GroundedStep })[] = []
  const failed: { work: StartingStep; message: string }[] = []
  for (const work of works) {
    try {
      const subject = subjectOf(ground, work)
      const plan = planJobOfStep(ground.plugins, subject)
      wanted.push({ work, subject, plan, owner: { runId: work.run.id, stepId: work.step.id } })
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error
      failed.push({ work, message: error.message })
    }
  }
  const { through: planned, held } = await throughGate(context, tx, wanted)
  const jobIds = createJobs(context, tx, planned)
  if (planned.length > 0) {
    tx.write(sql`
      update step set status = 'active', job_id = p.job_id, message = '', started_at = ${tx.at}, finished_at = null,
        attempts = attempts + 1, not_before = null
      from unnest(${planned.map(({ work }) => work.step.id)}::text[], ${jobIds}::text[]) as p(id, job_id)
      where step.id = p.id`)
    markComponents(context, tx, planned)
  }
  if (failed.length > 0) {
    tx.write(sql`
      update step set status = 'failed', message = f.message, started_at = ${tx.at}, finished_at = ${tx.at}
      from unnest(${failed.map(({ work }) => work.step.id)}::text[], ${failed.map((f) => f.message)}::text[]) as f(id, message)
      where step.id = f.id`)
  }
  return [...failed, ...held].map(({ work }) => work.run.id)
}

/** From here on the component may be there in part, so that a teardown must look at it. */
function markComponents(
  context: Context,
  tx: Tx,
  planned: readonly { work: StartingStep; subject: StepSubject }[],
): void {
  const of = (kind: StepKind) => planned.filter(({ work: { step } }) => step.kind === kind)
  const runs = (some: typeof planned) => some.map(({ work }) => work.run.id)
  const components = (some: typeof planned) => some.map(({ work }) => work.step.component)
  const syncs = of('sync')
  if (syncs.length > 0) {
    tx.write(sql`
      update deploy set status = 'syncing'
      from unnest(${runs(syncs)}::text[], ${components(syncs)}::text[]) as w(run_id, component)
      where deploy.run_id = w.run_id and deploy.component = w.component`)
  }
  const deploys = of('deploy')
  if (deploys.length === 0) return
  const marks = deploys.map(({ subject }) => markOf(context, subject))
  tx.write(sql`
    with deploying as (
      update deploy set status = 'deploying'
      from unnest(${runs(deploys)}::text[], ${components(deploys)}::text[], ${marks.map((m) => m.configDigest)}::text[],
        ${marks.map((m) => m.driftCheckAt)}::timestamptz[]) as w(run_id, component, config_digest, drift_check_at)
      where deploy.run_id = w.run_id and deploy.component = w.component
      returning deploy.*, w.config_digest, w.drift_check_at
    )
    insert into install_component (install_id, component, status, build_id, artifact_repository, artifact_digest,
      config_digest, drift_check_at)
    select install_id, component, 'deploying', build_id, artifact_repository, artifact_digest, config_digest,
      drift_check_at
    from deploying
    on conflict (install_id, component) do update set status = 'deploying',
      config_digest = excluded.config_digest, drift_check_at = excluded.drift_check_at`)
}

function markOf(context: Context, subject: StepSubject) {
  const component = subject.app.components.find(({ name }) => name === subject.component)!
  const schedule = component.settings?.driftSchedule
  return {
    configDigest: configDigest(subject, component),
    driftCheckAt: schedule === undefined ? null : nextTime(schedule, context.now()),
  }
}
