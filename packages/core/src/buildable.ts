import { actionKey } from './action-triggers.ts'
import type { App, AppAction, Component, ComponentSource } from './app.ts'
import type { Json } from './json.ts'

/** What a build makes an artifact of: a component, or an action that takes files from repositories. */
export interface Buildable {
  /** A component's own name, or `action:NAME`, which no component can have. */
  name: string
  /** Null for an action. */
  component: string | null
  /** The plugin that builds it. */
  type: string
  /** Where its artifacts lie among those of the app. */
  path: string
  config: { [key: string]: Json }
  source: ComponentSource | null
  images: string[]
  timeoutSeconds?: number | undefined
}

/** Components first, each in the order of the app. */
export function buildables(app: App): Buildable[] {
  const actions = (app.actions ?? []).filter(isBuilt)
  return [...app.components.map(ofComponent), ...actions.map(ofAction)]
}

/** Some step runs in a folder of a repository: nothing is fetched in an install, so that folder is an artifact. */
export function isBuilt({ steps }: AppAction): boolean {
  return steps.some(({ source }) => source?.kind === 'git')
}

function ofComponent({ name, type, config, source, settings = {} }: Component): Buildable {
  const { images = [], buildTimeoutSeconds: timeoutSeconds } = settings
  return { name, component: name, type, path: name, config, source: source ?? null, images, timeoutSeconds }
}

/** Only what the artifact is made of: another command needs no other build. */
function ofAction(action: AppAction): Buildable {
  const steps = action.steps.flatMap(({ name, source }) =>
    source?.kind === 'git' ? [{ name, source: { ...source } }] : [],
  )
  return {
    name: actionKey(action.name, null),
    component: null,
    type: 'action',
    path: `actions/${action.name}`,
    config: { steps },
    source: null,
    images: [],
  }
}
