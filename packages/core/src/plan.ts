import { dependencyOrder, type App, type AppAction } from './app.ts'

export type StepKind =
  | 'sandbox'
  | 'agent'
  | 'sync'
  | 'plan'
  | 'approval'
  | 'deploy'
  | 'destroy'
  | 'action'
  | 'sandbox-destroy'

/** What somebody decided; the planner turns it into steps. */
export type Decision =
  | { kind: 'provision' }
  | { kind: 'deploy'; components: string[] }
  | { kind: 'teardown'; components: string[] }
  | { kind: 'deprovision' }
  /** Only looks: would a deploy of what is there change anything? */
  | { kind: 'drift'; components: string[] }
  | { kind: 'action'; action: string }

export const RUN_KINDS = ['provision', 'deploy', 'teardown', 'deprovision', 'drift', 'action'] as const
export type RunKind = Decision['kind']

export interface PlannedStep {
  /** Unique in its run, and readable: `deploy:web`. */
  key: string
  kind: StepKind
  component: string | null
  action: string | null
  dependsOn: string[]
}

/** What the planner must know of the install. */
export interface InstallState {
  /** Components that are, or may be, there: everything a deploy was ever started for and no destroy succeeded. */
  deployed: ReadonlySet<string>
  /** False when somebody else made the ground under the install and only an agent must come. */
  hasSandbox: boolean
  /** Components that are switched off here. */
  disabled: ReadonlySet<string>
  /** Component types that can say beforehand what a deploy would change. */
  plannable: ReadonlySet<string>
  approval: ApprovalOption
}

export const APPROVAL_OPTIONS = ['approve-all', 'prompt'] as const
/** `prompt`: somebody approves every plan before it is applied. */
export type ApprovalOption = (typeof APPROVAL_OPTIONS)[number]

/** Pure: the same decision on the same state gives the same steps, each after all that it depends on. */
export function planRun(decision: Decision, app: App, state: InstallState): PlannedStep[] {
  const steps = planSteps(decision, createGraph(app), state)
  return withActionSync(steps, decision.kind === 'provision' ? ['agent'] : [])
}

/** What runs actions must be in the install's own registry as well: one sync for all of a run's actions. */
function withActionSync(steps: PlannedStep[], after: string[]): PlannedStep[] {
  const first = steps.findIndex(({ kind }) => kind === 'action')
  if (first < 0) return steps
  const sync = step('sync', null, after)
  const synced = steps.map((each) =>
    each.kind === 'action' ? { ...each, dependsOn: [...each.dependsOn, sync.key] } : each,
  )
  return [...synced.slice(0, first), sync, ...synced.slice(first)]
}

function planSteps(decision: Decision, graph: Graph, state: InstallState): PlannedStep[] {
  switch (decision.kind) {
    case 'provision': {
      const ground = state.hasSandbox
        ? [step('sandbox', null, []), step('agent', null, ['sandbox'])]
        : [step('agent', null, [])]
      const deploys = planDeploys(graph, state, new Set(graph.order), ['agent'])
      return [...ground, ...deploys, ...closing(graph, 'post-provision', ['agent', ...endsOf(deploys)])]
    }
    case 'deploy':
      return planDeploys(graph, state, new Set(decision.components), [])
    case 'teardown':
      return planDestroys(graph, new Set(decision.components))
    case 'deprovision': {
      const destroys = planDestroys(graph, state.deployed)
      if (!state.hasSandbox) return destroys
      const after = destroys.filter(({ kind }) => kind === 'destroy').map(({ key }) => key)
      return [...destroys, step('sandbox-destroy', null, after)]
    }
    case 'drift':
      return decision.components
        .filter((name) => state.deployed.has(name) && isPlannable(graph, state, name))
        .toSorted()
        .map((name) => step('plan', name, []))
    case 'action':
      return [actionStep(decision.action, null, [])]
  }
}

function planDeploys(
  graph: Graph,
  state: InstallState,
  wanted: ReadonlySet<string>,
  after: string[],
): PlannedStep[] {
  const selected = new Set(graph.order.filter((name) => wanted.has(name) && !state.disabled.has(name)))
  const needs = selectedNeeds(graph, selected)
  const steps: PlannedStep[] = []
  for (const name of graph.order) {
    if (!selected.has(name)) continue
    let last = [stepKey('sync', name), ...needs.get(name)!.map((d) => stepKey('deploy', d))]
    const add = (next: PlannedStep): void => {
      steps.push(next)
      last = [next.key]
    }
    steps.push(step('sync', name, after))
    if (isPlannable(graph, state, name)) {
      add(step('plan', name, last))
      if (state.approval === 'prompt') add(step('approval', name, last))
    }
    for (const action of graph.triggered('pre-deploy-component', name)) add(actionStep(action, name, last))
    add(step('deploy', name, last))
    for (const action of graph.triggered('post-deploy-component', name)) add(actionStep(action, name, last))
  }
  return [...steps, ...closing(graph, 'post-deploy-all-components', endsOf(steps))]
}

/** Reverse: a component goes only after everything that depends on it is gone. */
function planDestroys(graph: Graph, wanted: ReadonlySet<string>): PlannedStep[] {
  const orphans = [...wanted].filter((name) => !graph.dependencies.has(name)).toSorted()
  const steps = orphans.map((name) => step('destroy', name, []))
  const selected = new Set(graph.order.filter((name) => wanted.has(name)))
  const dependents = reversed(selectedNeeds(graph, selected))
  for (const name of graph.order.toReversed()) {
    if (!selected.has(name)) continue
    let last = (dependents.get(name) ?? []).map((other) => stepKey('destroy', other))
    for (const action of graph.triggered('pre-teardown-component', name)) {
      const before = actionStep(action, name, last)
      steps.push(before)
      last = [before.key]
    }
    steps.push(step('destroy', name, last))
  }
  return steps
}

/** What runs once after all the others. */
function closing(graph: Graph, trigger: string, after: string[]): PlannedStep[] {
  return graph.triggered(trigger, undefined).map((action) => actionStep(action, null, after))
}

function endsOf(steps: readonly PlannedStep[]): string[] {
  return steps.filter(({ kind }) => kind === 'deploy').map(({ key }) => key)
}

interface Graph {
  /** Every component after all that it depends on. */
  order: string[]
  dependencies: Map<string, string[]>
  types: Map<string, string>
  /** Names of the actions that a trigger starts, in their order. */
  triggered(trigger: string, component: string | undefined): string[]
}

function createGraph(app: App): Graph {
  return {
    order: dependencyOrder(app.components),
    dependencies: new Map(app.components.map((c) => [c.name, c.dependencies])),
    types: new Map(app.components.map((c) => [c.name, c.type])),
    triggered: (trigger, component) =>
      (app.actions ?? [])
        .flatMap((action) => matching(action, trigger, component))
        .toSorted((a, b) => a.index - b.index)
        .map(({ name }) => name),
  }
}

function matching(action: AppAction, trigger: string, component: string | undefined) {
  const found = action.triggers.find((t) => t.type === trigger && t.component === component)
  return found ? [{ name: action.name, index: found.index ?? 0 }] : []
}

function isPlannable(graph: Graph, state: InstallState, name: string): boolean {
  return state.plannable.has(graph.types.get(name) ?? '')
}

/** The nearest selected components below each one; a dependency that is not selected passes its own on. */
function selectedNeeds(graph: Graph, selected: ReadonlySet<string>): Map<string, string[]> {
  const below = new Map<string, Set<string>>()
  for (const name of graph.order) {
    const needs = new Set<string>()
    for (const dependency of graph.dependencies.get(name) ?? []) {
      if (selected.has(dependency)) needs.add(dependency)
      else for (const further of below.get(dependency) ?? []) needs.add(further)
    }
    below.set(name, needs)
  }
  return new Map([...selected].map((name) => [name, [...below.get(name)!].toSorted()]))
}

function reversed(needs: ReadonlyMap<string, string[]>): Map<string, string[]> {
  const dependents = new Map<string, string[]>()
  for (const [name, below] of needs) {
    for (const dependency of below) dependents.set(dependency, [...(dependents.get(dependency) ?? []), name])
  }
  return dependents
}

function step(kind: StepKind, component: string | null, dependsOn: string[]): PlannedStep {
  return { key: stepKey(kind, component), kind, component, action: null, dependsOn }
}

function actionStep(action: string, component: string | null, dependsOn: string[]): PlannedStep {
  const key = component === null ? `action:${action}` : `action:${action}/${component}`
  return { key, kind: 'action', component, action, dependsOn }
}

export function stepKey(kind: StepKind, component: string | null): string {
  return component === null ? kind : `${kind}:${component}`
}
