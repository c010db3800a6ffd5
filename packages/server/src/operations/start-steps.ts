import type { App, ApprovalOption, RunKind, StepKind } from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import type { Tx } from '../store/transaction.ts'
import { loadPlans, planKey, startApprovals } from './approvals.ts'
import { configDigest, type InstalledComponent } from './component-config.ts'
import { nextTime } from './schedules.ts'
import { createJobs, type PlannedJob } from './create-job.ts'
import { throughGate } from './deploy-gate.ts'
import { deployedVersions, versionKey } from './deployed-versions.ts'
import {
  loadPlugins,
  planJobOfStep,
  poolOf,
  roleOfStep,
  type Plugins,
  type StepSubject,
} from './manifests.ts'

export interface StartingStep {
  run: { id: string; install_id: string; app_version_id: string; kind: RunKind }
  step: { id: string; kind: StepKind; component: string | null; action: string | null }
}

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
    tx.seats.confirm(
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

type GroundedStep = StepSubject & { install: { approval: ApprovalOption } }

interface Ground {
  plugins: Plugins
  installs: Map<string, GroundedStep['install']>
  versions: Map<string, { number: number; content: App }>
  dropped: Awaited<ReturnType<typeof deployedVersions>>
  /** What the run brings, over what is on the install, by run. */
  components: Map<string, Map<string, InstalledComponent>>
  /** Artifacts of the actions that a run pinned, by run. */
  actions: Map<string, Map<string, InstalledComponent['artifact']>>
  plans: Awaited<ReturnType<typeof loadPlans>>
}

/** Everything that the manifests of these steps are made of, in a few statements for all of them. */
async function loadGround(tx: Tx, works: readonly StartingStep[]): Promise<Ground> {
  const distinct = (values: string[]) => [...new Set(values)]
  const installIds = distinct(works.map(({ run }) => run.install_id))
  const versionIds = distinct(works.map(({ run }) => run.app_version_id))
  const deploying = works.filter(({ step }) => step.kind === 'deploy').map(({ run }) => run.id)
  const [plugins, installs, rows, components, actions, plans] = await Promise.all([
    loadPlugins(tx),
    tx.db
      .selectFrom('install')
      .select(['id', 'name', 'sandbox_type', 'sandbox_config', 'inputs', 'overrides', 'approval'])
      .where(sql<boolean>`id = any(${installIds})`)
      .execute(),
    tx.db
      .selectFrom('app_version')
      .select(['id', 'number', 'content'])
      .where(sql<boolean>`id = any(${versionIds})`)
      .execute(),
    loadComponents(tx, works),
    loadActions(tx, works),
    deploying.length > 0 ? loadPlans(tx, distinct(deploying)) : new Map(),
  ])
  const versions = new Map(rows.map((row) => [row.id, row]))
  return {
    plugins,
    installs: new Map(installs.map((row) => [row.id, row])),
    versions,
    dropped: await loadDropped(tx, works, versions),
    components,
    actions,
    plans,
  }
}

/** A run's own sync brings what its actions are built of, so that it asks as the actions do. */
async function loadActions(tx: Tx, works: readonly StartingStep[]): Promise<Ground['actions']> {
  const asking = works.filter(({ step }) => step.kind === 'action' || ownSync(step))
  const actions: Ground['actions'] = new Map(asking.map(({ run }) => [run.id, new Map()]))
  if (actions.size === 0) return actions
  const { rows } = await sql<{ run_id: string; action: string; repository: string; digest: string }>`
    select step.run_id, step.action, build.artifact_repository as repository, build.artifact_digest as digest
    from step join build on build.id = step.action_build_id
    where step.run_id = any(${[...actions.keys()]}) order by step.position`.execute(tx.db)
  for (const { run_id, action, ...artifact } of rows) actions.get(run_id)!.set(action, artifact)
  return actions
}

function ownSync({ kind, component }: StartingStep['step']): boolean {
  return kind === 'sync' && component === null
}

/** What a step is about and the app no longer has is removed by the version that it was deployed with. */
function loadDropped(tx: Tx, works: readonly StartingStep[], versions: Ground['versions']) {
  const of = works.flatMap(({ run, step: { component } }) => {
    const { content } = versions.get(run.app_version_id)!
    if (component === null || content.components.some(({ name }) => name === component)) return []
    return [{ installId: run.install_id, component }]
  })
  return deployedVersions(tx, of)
}

/** A destroy and a look for drift are about what is there; everything else about what the run brings. */
async function loadComponents(tx: Tx, works: readonly StartingStep[]): Promise<Ground['components']> {
  const runs = works.map(({ run }) => run)
  const { rows } = await sql<{
    run_id: string
    component: string
    status: string
    build_id: string
    repository: string
    digest: string
  }>`
    with r as (
      select distinct * from unnest(${runs.map((run) => run.id)}::text[], ${runs.map((run) => run.install_id)}::text[])
        as r(id, install_id)
    )
    select 0 as rank, r.id as run_id, c.component, c.status, c.build_id, c.artifact_repository as repository,
      c.artifact_digest as digest
    from r join install_component as c on c.install_id = r.install_id
    union all
    select 1, d.run_id, d.component, d.status, d.build_id, d.artifact_repository, d.artifact_digest
    from r join deploy as d on d.run_id = r.id
    order by rank`.execute(tx.db)
  const components: Ground['components'] = new Map()
  for (const { run_id, component, status, build_id, repository, digest } of rows) {
    const ofRun = components.get(run_id) ?? new Map<string, InstalledComponent>()
    components.set(
      run_id,
      ofRun.set(component, { status, buildId: build_id, artifact: { repository, digest } }),
    )
  }
  return components
}

function subjectOf(ground: Ground, { run, step }: StartingStep): GroundedStep {
  const { kind, component, action } = step
  const dropped = component === null ? undefined : ground.dropped.get(versionKey(run.install_id, component))
  const version = dropped ?? ground.versions.get(run.app_version_id)!
  const components = ground.components.get(run.id) ?? new Map<string, InstalledComponent>()
  const plan = component === null ? undefined : ground.plans.get(planKey(run.id, component))
  return {
    kind,
    component,
    action,
    install: ground.installs.get(run.install_id)!,
    app: version.content,
    appVersion: version.number,
    components,
    artifact: component === null ? undefined : components.get(component)?.artifact,
    actions: ground.actions.get(run.id) ?? new Map(),
    approvedPlan: plan?.digest ?? null,
  }
}
