import type { App, AppAction } from './app.ts'

/** Where a run starts actions by themselves. */
const RUN_TRIGGERS = [
  'pre-deploy-component',
  'post-deploy-component',
  'pre-teardown-component',
  'post-teardown-component',
  'pre-deploy-all-components',
  'post-deploy-all-components',
  'pre-teardown-all-components',
  'post-teardown-all-components',
  'post-provision',
  'pre-deprovision',
  'pre-update-inputs',
  'post-update-inputs',
] as const
export type RunTrigger = (typeof RUN_TRIGGERS)[number]

/** Why a trigger that a vendor may write never starts anything; undefined when it does. */
export function whyIdle(trigger: string): string | undefined {
  if (trigger === 'manual' || trigger === CRON || isRunTrigger(trigger)) return undefined
  return IDLE[trigger] ?? 'this server knows no such event'
}

const IDLE: { readonly [trigger: string]: string } = {
  'pre-provision': 'no agent is there yet that could run it',
  'pre-reprovision': 'an install is not provisioned twice',
  'post-reprovision': 'an install is not provisioned twice',
  'post-deprovision': 'no agent is there any more that could run it',
  'pre-secrets-sync': 'secrets go to the agent without a run',
  'post-secrets-sync': 'secrets go to the agent without a run',
  'role-enabled': 'there are no such roles yet',
  'role-disabled': 'there are no such roles yet',
}

function isRunTrigger(trigger: string): trigger is RunTrigger {
  return (RUN_TRIGGERS as readonly string[]).includes(trigger)
}

/** Started by the server's clock, in a run of its own. */
export const CRON = 'cron'

/** The actions that have schedules, each with all of its own (cron, in UTC). */
export function scheduledActions(app: App): { name: string; schedules: string[] }[] {
  return (app.actions ?? []).flatMap(({ name, triggers }) => {
    const schedules = triggers.flatMap(({ type, cron }) =>
      type === CRON && cron !== undefined ? [cron] : [],
    )
    return schedules.length > 0 ? [{ name, schedules }] : []
  })
}

export interface TriggeredAction {
  name: string
  /** Of the step; unique in a run. */
  key: string
}

/** The actions that a trigger starts, in their order. */
export function triggeredActions(app: App, trigger: RunTrigger, component: string | null): TriggeredAction[] {
  return (app.actions ?? [])
    .flatMap((action) => {
      const found = action.triggers.find((t) => t.type === trigger && (t.component ?? null) === component)
      if (!found) return []
      return [{ name: action.name, key: keyOf(action, trigger, component), index: found.index ?? 0 }]
    })
    .toSorted((a, b) => a.index - b.index)
    .map(({ name, key }) => ({ name, key }))
}

export function actionKey(action: string, component: string | null): string {
  return component === null ? `action:${action}` : `action:${action}/${component}`
}

/** An action that several triggers start at the same place is told apart by them: they may meet in one run. */
function keyOf({ name, triggers }: AppAction, trigger: RunTrigger, component: string | null): string {
  const here = triggers.filter((t) => isRunTrigger(t.type) && (t.component ?? null) === component)
  const isAlone = new Set(here.map(({ type }) => type)).size === 1
  return isAlone ? actionKey(name, component) : `${actionKey(name, component)}@${trigger}`
}
