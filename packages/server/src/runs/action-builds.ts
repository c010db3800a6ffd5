import { actionKey, isBuilt, type App, type PlannedStep } from '@tenon/core'
import { ApiFailure } from '../errors.ts'
import type { Tx } from '../store/transaction.ts'
import { newestBuilds } from './newest-builds.ts'

/** The newest build of each built action of these steps, by action: what is decided now is what will run. */
export async function pinActions(
  tx: Tx,
  appId: string,
  app: App,
  steps: readonly PlannedStep[],
): Promise<Map<string, string>> {
  // What the app dropped is removed by its own version, whose actions the app may not have any more.
  const isGone = (name: string) => !app.actions?.some((action) => action.name === name)
  const names = actionsOf(steps).filter((name) => isGone(name) || isBuiltIn(app, name))
  if (names.length === 0) return new Map()
  const builds = await newestBuilds(
    tx,
    appId,
    names.map((name) => actionKey(name, null)),
  )
  return new Map(
    names.flatMap((name) => {
      const build = builds.find(({ component }) => component === actionKey(name, null))
      return build ? [[name, build.id]] : []
    }),
  )
}

/** What is to be removed may need to go unbuilt too: there the action's own step says what is missing. */
export function requireBuiltActions(
  app: App,
  steps: readonly (PlannedStep & { buildId: string | null })[],
): void {
  const unbuilt = actionsOf(steps.filter(({ buildId }) => buildId === null)).filter((name) =>
    isBuiltIn(app, name),
  )
  if (unbuilt.length === 0) return
  const missing = unbuilt.map((name) => actionKey(name, null))
  throw new ApiFailure('no_build', `not built yet: ${missing.join(', ')}`, {
    remedy: `Build first: \`${buildCommand(missing)}\`.`,
  })
}

export function buildCommand(names: readonly string[]): string {
  return `tenon builds create --component ${names.join(' ')}`
}

function isBuiltIn(app: App, name: string): boolean {
  return app.actions?.some((action) => action.name === name && isBuilt(action)) === true
}

function actionsOf(steps: readonly PlannedStep[]): string[] {
  return [...new Set(steps.flatMap(({ action }) => action ?? []))]
}
