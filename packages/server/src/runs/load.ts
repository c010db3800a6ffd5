import type { App, ApprovalOption, RunKind, StepKind } from '@tenon/core'
import { planOf } from '@tenon/protocol'
import { sql } from 'kysely'
import { loadPlugins, type Plugins } from '../artifacts/plugins.ts'
import type { Tx } from '../store/transaction.ts'
import type { InstalledComponent } from './component-config.ts'
import { deployedVersions, versionKey } from './deployed-versions.ts'
import type { StepSubject } from './job-of-step.ts'

export interface StartingStep {
  run: { id: string; install_id: string; app_version_id: string; kind: RunKind }
  step: { id: string; kind: StepKind; component: string | null; action: string | null }
}

export type GroundedStep = StepSubject & { install: { approval: ApprovalOption } }

export interface Ground {
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
export async function loadGround(tx: Tx, works: readonly StartingStep[]): Promise<Ground> {
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

export function subjectOf(ground: Ground, { run, step }: StartingStep): GroundedStep {
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

/** The results of the plan steps of these runs, by `planKey`. */
export async function loadPlans(tx: Tx, runIds: readonly string[]) {
  const { rows } = await sql<{ run_id: string; component: string; result: { [key: string]: unknown } }>`
    select step.run_id, step.component, job.result from step join job on job.id = step.job_id
    where step.run_id = any(${runIds}) and step.kind = 'plan' and step.status = 'succeeded'`.execute(tx.db)
  return new Map(rows.map((row) => [planKey(row.run_id, row.component), planOf(row.result)]))
}

export function planKey(runId: string, component: string): string {
  return `${runId}/${component}`
}
