import { planRun, type App, type Decision, type PlannedStep, disabledComponents } from '@tenon/core'
import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'
import { pinActions } from './action-builds.ts'
import { deployedVersions } from './deployed-versions.ts'
import { settingsOf } from './plans-ended.ts'

/** Asks the core which steps a decision makes on the install as it is now, and stores them. */
export async function planSteps(
  context: Context,
  tx: Tx,
  runId: string,
  install: { id: string; app_id: string },
  decision: Decision,
  app: App,
): Promise<(PlannedStep & { buildId: string | null })[]> {
  const planned = planRun(decision, app, await installState(tx, install.id, app))
  if (planned.length === 0) return []
  const builds = await pinActions(tx, install.app_id, app, planned)
  const steps = planned.map((s) => ({ ...s, buildId: builds.get(s.action ?? '') ?? null }))
  await tx.db
    .insertInto('step')
    .values(
      steps.map((s, position) => ({
        id: context.newId('step'),
        run_id: runId,
        position,
        key: s.key,
        kind: s.kind,
        component: s.component,
        action: s.action,
        depends_on: s.dependsOn,
        status: 'pending' as const,
        action_build_id: s.buildId,
        max_auto_retries: (s.component && settingsOf(app, s.component)?.maxAutoRetries) || 0,
      })),
    )
    .execute()
  return steps
}

async function installState(tx: Tx, installId: string, app: App) {
  const [install, there, plugins] = await Promise.all([
    tx.db
      .selectFrom('install')
      .select(['sandbox_type', 'approval', 'toggles', 'left_out', 'keeps_secrets'])
      .where('id', '=', installId)
      .executeTakeFirstOrThrow(),
    tx.db.selectFrom('install_component').select('component').where('install_id', '=', installId).execute(),
    tx.db.selectFrom('plugin').select(['name', 'operations']).execute(),
  ])
  return {
    deployed: new Set(there.map((row) => row.component)),
    hasSandbox: install.sandbox_type !== 'none',
    disabled: disabledComponents(app, install),
    plannable: new Set(plugins.filter((row) => row.operations.includes('plan')).map((row) => row.name)),
    approval: install.approval,
    keepsSecrets: install.keeps_secrets,
    dropped: await droppedApps(tx, installId, app, there),
  }
}

async function droppedApps(
  tx: Tx,
  installId: string,
  app: App,
  there: readonly { component: string }[],
): Promise<Map<string, App>> {
  const names = new Set(app.components.map(({ name }) => name))
  const gone = there.filter(({ component }) => !names.has(component))
  const versions = await deployedVersions(
    tx,
    gone.map(({ component }) => ({ installId, component })),
  )
  return new Map([...versions.values()].map(({ component, content }) => [component, content]))
}
