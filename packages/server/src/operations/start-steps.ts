import type { App, StepKind } from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import type { Tx } from '../store/transaction.ts'
import { createJobs, type PlannedJob } from './create-job.ts'
import { loadPlugins, planJobOfStep, type Plugins, type StepSubject } from './manifests.ts'

export interface StartingStep {
  run: { id: string; install_id: string; app_version_id: string }
  step: { id: string; kind: StepKind; component: string | null }
}

/** Starts steps of any number of runs. Answers the runs of which one is already over, so that they may go on at once. */
export async function startSteps(
  context: Context,
  tx: Tx,
  starting: readonly StartingStep[],
): Promise<Set<string>> {
  const waits = starting.filter(({ step }) => step.kind === 'agent')
  const works = starting.filter(({ step }) => step.kind !== 'agent')
  return new Set([
    ...(waits.length > 0 ? await waitForAgents(tx, waits) : []),
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
  const ground = await loadGround(tx, works)
  const planned: (PlannedJob & { work: StartingStep })[] = []
  const failed: { work: StartingStep; message: string }[] = []
  for (const work of works) {
    try {
      const plan = planJobOfStep(ground.plugins, subjectOf(ground, work))
      planned.push({ work, plan, owner: { runId: work.run.id, stepId: work.step.id } })
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error
      failed.push({ work, message: error.message })
    }
  }
  const jobIds = createJobs(context, tx, planned)
  if (planned.length > 0) {
    tx.write(sql`
      update step set status = 'active', job_id = p.job_id, message = '', started_at = ${tx.at}, finished_at = null
      from unnest(${planned.map(({ work }) => work.step.id)}::text[], ${jobIds}::text[]) as p(id, job_id)
      where step.id = p.id`)
    markComponents(
      tx,
      planned.map(({ work }) => work),
    )
  }
  if (failed.length > 0) {
    tx.write(sql`
      update step set status = 'failed', message = f.message, started_at = ${tx.at}, finished_at = ${tx.at}
      from unnest(${failed.map(({ work }) => work.step.id)}::text[], ${failed.map((f) => f.message)}::text[]) as f(id, message)
      where step.id = f.id`)
  }
  return failed.map(({ work }) => work.run.id)
}

/** From here on the component may be there in part, so that a teardown must look at it. */
function markComponents(tx: Tx, works: readonly StartingStep[]): void {
  const of = (kind: StepKind) => works.filter(({ step }) => step.kind === kind && step.component !== null)
  const columns = (some: StartingStep[]) =>
    sql`unnest(${some.map((w) => w.run.id)}::text[], ${some.map((w) => w.step.component)}::text[]) as w(run_id, component)`
  const syncs = of('sync')
  if (syncs.length > 0) {
    tx.write(sql`
      update deploy set status = 'syncing' from ${columns(syncs)}
      where deploy.run_id = w.run_id and deploy.component = w.component`)
  }
  const deploys = of('deploy')
  if (deploys.length === 0) return
  tx.write(sql`
    with deploying as (
      update deploy set status = 'deploying' from ${columns(deploys)}
      where deploy.run_id = w.run_id and deploy.component = w.component
      returning deploy.install_id, deploy.component, build_id, artifact_repository, artifact_digest
    )
    insert into install_component (install_id, component, status, build_id, artifact_repository, artifact_digest)
    select install_id, component, 'deploying', build_id, artifact_repository, artifact_digest from deploying
    on conflict (install_id, component) do update set status = 'deploying'`)
}

type Artifact = { repository: string; digest: string }

interface Ground {
  plugins: Plugins
  installs: Map<string, StepSubject['install']>
  apps: Map<string, App>
  /** Of a run's deploys, and of what is on an install, by `artifactKey`. */
  artifacts: Map<string, Artifact>
}

/** Everything that the manifests of these steps are made of, in a few statements for all of them. */
async function loadGround(tx: Tx, works: readonly StartingStep[]): Promise<Ground> {
  const distinct = (values: string[]) => [...new Set(values)]
  const installIds = distinct(works.map(({ run }) => run.install_id))
  const versionIds = distinct(works.map(({ run }) => run.app_version_id))
  const runIds = distinct(works.filter(({ step }) => step.component !== null).map(({ run }) => run.id))
  const destroys = works.filter(({ step }) => step.kind === 'destroy').map(({ run }) => run.install_id)
  const [plugins, installs, versions, artifacts] = await Promise.all([
    loadPlugins(tx),
    tx.db
      .selectFrom('install')
      .select(['id', 'name', 'sandbox_type', 'sandbox_config', 'inputs'])
      .where(sql<boolean>`id = any(${installIds})`)
      .execute(),
    tx.db
      .selectFrom('app_version')
      .select(['id', 'content'])
      .where(sql<boolean>`id = any(${versionIds})`)
      .execute(),
    sql<Artifact & { owner: string; component: string }>`
      select run_id as owner, component, artifact_repository as repository, artifact_digest as digest
      from deploy where run_id = any(${runIds})
      union all
      select install_id, component, artifact_repository, artifact_digest
      from install_component where install_id = any(${distinct(destroys)})`.execute(tx.db),
  ])
  return {
    plugins,
    installs: new Map(installs.map((row) => [row.id, row])),
    apps: new Map(versions.map((row) => [row.id, row.content])),
    artifacts: new Map(
      artifacts.rows.map(({ owner, component, repository, digest }) => [
        artifactKey(owner, component),
        { repository, digest },
      ]),
    ),
  }
}

function subjectOf(ground: Ground, { run, step }: StartingStep): StepSubject {
  const { kind, component } = step
  const owner = kind === 'destroy' ? run.install_id : run.id
  return {
    kind,
    component,
    install: ground.installs.get(run.install_id)!,
    app: ground.apps.get(run.app_version_id)!,
    artifact: component === null ? undefined : ground.artifacts.get(artifactKey(owner, component)),
  }
}

function artifactKey(owner: string, component: string): string {
  return `${owner}/${component}`
}
