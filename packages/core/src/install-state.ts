import type { Json } from './json.ts'

/** The two names of the install's state in templates; the second is what existing configurations write. */
export const STATE_ROOTS = ['tenon', 'nuon'] as const

type Values = { [name: string]: Json }

/** What is known of an install, as far as its templates may read it. What is absent is not there yet. */
export interface InstallFacts {
  id: string
  name: string
  app: { id: string; name: string; version?: number; variables?: Values }
  /** The vendor's. */
  org?: { id: string; name: string }
  inputs?: Values
  secrets?: { [name: string]: string }
  sandbox?: { type?: string; outputs?: Values }
  components?: readonly ComponentFacts[]
  /** Outputs of the last run of each action, by its name. */
  actions?: { [name: string]: Values }
  agent?: { id: string }
  domain?: Values
  cloudAccount?: Values
  installStack?: Values
}

export interface ComponentFacts {
  name: string
  varName?: string
  status: string
  buildId?: string
  /** Absent while it is not deployed. */
  outputs?: Values
}

export type TemplateState = { [root in (typeof STATE_ROOTS)[number]]: { [part: string]: Json } }

/** The state that templates are rendered over, under both of its names. */
export function installState(facts: InstallFacts): TemplateState {
  const inputs = part(facts.inputs, { inputs: facts.inputs ?? {} })
  const sandbox = part(facts.sandbox?.outputs, {
    type: facts.sandbox?.type ?? '',
    outputs: facts.sandbox?.outputs ?? {},
    recent_runs: [],
  })
  const state = {
    populated: true,
    id: facts.id,
    name: facts.name,
    org: part(facts.org, { ...facts.org }),
    app: part(facts.app, { version: 0, ...facts.app, variables: facts.app.variables ?? {} }),
    inputs,
    sandbox,
    components: componentsOf(facts.components ?? []),
    actions: part(facts.actions, { workflows: workflowsOf(facts.actions ?? {}) }),
    runner: part(facts.agent, { ...facts.agent }),
    domain: part(facts.domain, { ...facts.domain }),
    cloud_account: part(facts.cloudAccount, { ...facts.cloudAccount }),
    install_stack: part(facts.installStack, { outputs: {}, ...facts.installStack }),
    secrets: { ...facts.secrets, populated: facts.secrets !== undefined },
    // The older way to the same values.
    install: { populated: true, id: facts.id, name: facts.name, inputs: facts.inputs ?? {}, sandbox },
  }
  return { tenon: state, nuon: state }
}

/** Every name under which templates find a component. */
export function componentAliases(component: { name: string; varName?: string | undefined }): string[] {
  const underscored = component.name.replaceAll('-', '_')
  return [
    ...new Set([
      component.name,
      underscored,
      ...(component.varName === undefined ? [] : [component.varName]),
    ]),
  ]
}

function part(known: unknown, content: { [key: string]: Json }): { [key: string]: Json } {
  return { ...content, populated: known !== undefined }
}

function componentsOf(components: readonly ComponentFacts[]): { [name: string]: Json } {
  const found: { [name: string]: Json } = {}
  for (const component of components) {
    const { status, buildId, outputs } = component
    const value = part(outputs, { outputs: outputs ?? {}, status, build_id: buildId ?? '' })
    for (const name of componentAliases(component)) found[name] = value
  }
  return { ...found, populated: components.length > 0 }
}

function workflowsOf(actions: { [name: string]: Values }): { [name: string]: Json } {
  const names = Object.entries(actions).map(
    ([name, outputs]) => [name, { outputs, populated: true }] as const,
  )
  return Object.fromEntries(names)
}
