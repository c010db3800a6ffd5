import { dependencyOrder, type App } from './app.ts'

export type StepKind = 'sandbox' | 'agent' | 'sync' | 'deploy' | 'destroy' | 'sandbox-destroy'

/** What somebody decided; the planner turns it into steps. */
export type Decision =
  | { kind: 'provision' }
  | { kind: 'deploy'; components: string[] }
  | { kind: 'teardown'; components: string[] }
  | { kind: 'deprovision' }

export type RunKind = Decision['kind']

export interface PlannedStep {
  /** Unique in its run, and readable: `deploy:web`. */
  key: string
  kind: StepKind
  component: string | null
  dependsOn: string[]
}

/** What the planner must know of the install. */
export interface InstallState {
  /** Components that are, or may be, there: everything a deploy was ever started for and no destroy succeeded. */
  deployed: ReadonlySet<string>
  /** False when somebody else made the ground under the install and only an agent must come. */
  hasSandbox: boolean
}

/** Pure: the same decision on the same state gives the same steps, each after all that it depends on. */
export function planRun(decision: Decision, app: App, state: InstallState): PlannedStep[] {
  switch (decision.kind) {
    case 'provision': {
      const base = state.hasSandbox
        ? [step('sandbox', null, []), step('agent', null, ['sandbox'])]
        : [step('agent', null, [])]
      return [...base, ...planDeploys(app, new Set(app.components.map((c) => c.name)), ['agent'])]
    }
    case 'deploy':
      return planDeploys(app, new Set(decision.components), [])
    case 'teardown':
      return planDestroys(app, new Set(decision.components))
    case 'deprovision': {
      const destroys = planDestroys(app, state.deployed)
      if (!state.hasSandbox) return destroys
      const after = destroys.map((s) => s.key)
      return [...destroys, step('sandbox-destroy', null, after)]
    }
  }
}

function planDeploys(app: App, selected: ReadonlySet<string>, after: string[]): PlannedStep[] {
  const steps: PlannedStep[] = []
  for (const name of selectedOrder(app, selected)) {
    const needs = selectedNeeds(app, selected, name)
    steps.push(step('sync', name, after))
    steps.push(step('deploy', name, [stepKey('sync', name), ...needs.map((d) => stepKey('deploy', d))]))
  }
  return steps
}

/** Reverse: a component goes only after everything that depends on it is gone. */
function planDestroys(app: App, selected: ReadonlySet<string>): PlannedStep[] {
  const known = new Set(app.components.map((c) => c.name))
  const orphans = [...selected].filter((name) => !known.has(name)).toSorted()
  const steps = orphans.map((name) => step('destroy', name, []))
  const order = selectedOrder(app, selected)
  for (const name of order.toReversed()) {
    const dependents = order.filter((other) => selectedNeeds(app, selected, other).includes(name))
    steps.push(
      step(
        'destroy',
        name,
        dependents.map((other) => stepKey('destroy', other)),
      ),
    )
  }
  return steps
}

function selectedOrder(app: App, selected: ReadonlySet<string>): string[] {
  return dependencyOrder(app.components).filter((name) => selected.has(name))
}

/** The nearest selected components below one; a dependency that is not selected passes its own on. */
function selectedNeeds(app: App, selected: ReadonlySet<string>, name: string): string[] {
  const needs = new Set<string>()
  const seen = new Set<string>()
  const open = [name]
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const dependency of app.components.find((c) => c.name === at)?.dependencies ?? []) {
      if (seen.has(dependency)) continue
      seen.add(dependency)
      if (selected.has(dependency)) needs.add(dependency)
      else open.push(dependency)
    }
  }
  return [...needs].toSorted()
}

function step(kind: StepKind, component: string | null, dependsOn: string[]): PlannedStep {
  return { key: stepKey(kind, component), kind, component, dependsOn }
}

export function stepKey(kind: StepKind, component: string | null): string {
  return component === null ? kind : `${kind}:${component}`
}
