import { actionKey, triggeredActions, type RunTrigger, type TriggeredAction } from './action-triggers.ts'
import { dependencyOrder, kubernetesTargets, type App } from './app.ts'

export type StepKind =
  | 'sandbox'
  | 'agent'
  | 'sync'
  | 'plan'
  | 'approval'
  | 'deploy'
  | 'destroy'
  | 'action'
  /** Secrets of the install into its cluster, and out of it. */
  | 'secrets'
  | 'secrets-destroy'
  | 'sandbox-destroy'

/** What somebody decided; the planner turns it into steps. */
export type Decision =
  | { kind: 'provision' }
  /** `inputsChanged`: somebody changed inputs, and these components read them. */
  | { kind: 'deploy'; components: string[]; inputsChanged?: boolean }
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
  /** Its cluster may hold secrets that an earlier run put there. */
  keepsSecrets: boolean
  /** Of what is there and no longer in the app: the version that it was deployed with. */
  dropped?: ReadonlyMap<string, App>
}

export const APPROVAL_OPTIONS = ['approve-all', 'prompt'] as const
/** `prompt`: somebody approves every deploy: its plan, or what would be deployed where its type makes none. */
export type ApprovalOption = (typeof APPROVAL_OPTIONS)[number]

/** Pure: the same decision on the same state gives the same steps, each after all that it depends on. */
export function planRun(decision: Decision, app: App, state: InstallState): PlannedStep[] {
  const steps = planSteps(decision, createGraph(app), state)
  return withOwnSync(steps, decision.kind === 'provision' ? ['agent'] : [])
}

const OF_NO_COMPONENT: ReadonlySet<StepKind> = new Set<StepKind>(['action', 'secrets', 'secrets-destroy'])

/** What does the steps of no component must be in the install's own registry as well: one sync for all of a run's. */
function withOwnSync(steps: PlannedStep[], after: string[]): PlannedStep[] {
  const first = steps.findIndex(({ kind }) => OF_NO_COMPONENT.has(kind))
  if (first < 0) return steps
  const sync = step('sync', null, after)
  const synced = steps.map((each) =>
    OF_NO_COMPONENT.has(each.kind) ? { ...each, dependsOn: [...each.dependsOn, sync.key] } : each,
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
      return [...ground, ...deploys, ...aside(graph, 'post-provision', ['agent', ...endsOf(deploys)])]
    }
    case 'deploy': {
      const wanted = new Set(decision.components)
      if (!decision.inputsChanged) return planDeploys(graph, state, wanted, [])
      const before = aside(graph, 'pre-update-inputs', [])
      const deploys = planDeploys(graph, state, wanted, keysOf(before))
      const after = deploys.length > 0 ? endsOf(deploys) : keysOf(before)
      return [...before, ...deploys, ...aside(graph, 'post-update-inputs', after)]
    }
    case 'teardown':
      return planDestroys(graph, state, new Set(decision.components), [])
    case 'deprovision': {
      const before = aside(graph, 'pre-deprovision', [])
      const destroys = planDestroys(graph, state, state.deployed, keysOf(before))
      const all = [...before, ...destroys]
      if (!state.hasSandbox) return all
      const after = new Set([...endsOf(destroys, 'destroy'), ...lastOf(all)])
      return [...all, step('sandbox-destroy', null, [...after])]
    }
    case 'drift':
      return decision.components
        .filter((name) => state.deployed.has(name) && isPlannable(graph, state, name))
        .toSorted()
        .map((name) => step('plan', name, []))
    case 'action':
      return [actionStep({ name: decision.action, key: actionKey(decision.action, null) }, null, [])]
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
  if (selected.size === 0) return []
  const before = aside(graph, 'pre-deploy-all-components', after)
  const first = keysOf(before)
  const secrets = graph.keepsSecrets ? [step('secrets', null, after)] : []
  const steps = [...before, ...secrets]
  for (const name of graph.order) {
    if (!selected.has(name)) continue
    let last = [stepKey('sync', name), ...needs.get(name)!.map((d) => stepKey('deploy', d)), ...first]
    const add = (next: PlannedStep): void => {
      steps.push(next)
      last = [next.key]
    }
    steps.push(step('sync', name, after))
    if (isPlannable(graph, state, name)) add(step('plan', name, last))
    if (state.approval === 'prompt') add(step('approval', name, last))
    for (const action of graph.triggered('pre-deploy-component', name)) add(actionStep(action, name, last))
    add(step('deploy', name, [...last, ...secrets.map(({ key }) => key)]))
    for (const action of graph.triggered('post-deploy-component', name)) add(actionStep(action, name, last))
  }
  // What the app no longer keeps in the cluster goes last, and not while a component of an older version may read it.
  const isDropped =
    state.keepsSecrets && !graph.keepsSecrets && [...state.deployed].every((name) => selected.has(name))
  const last = isDropped ? [step('secrets-destroy', null, endsOf(steps))] : []
  return [...steps, ...last, ...aside(graph, 'post-deploy-all-components', endsOf(steps))]
}

/** Reverse: a component goes only after everything that depends on it is gone. */
function planDestroys(
  graph: Graph,
  state: InstallState,
  wanted: ReadonlySet<string>,
  after: string[],
): PlannedStep[] {
  if (wanted.size === 0) return []
  const before = aside(graph, 'pre-teardown-all-components', after)
  const first = before.length > 0 ? keysOf(before) : after
  const steps = [...before, ...planDropped(graph, state, wanted, first)]
  const dropped = endsOf(steps, 'destroy')
  const selected = new Set(graph.order.filter((name) => wanted.has(name)))
  const dependents = reversed(selectedNeeds(graph, selected))
  for (const name of graph.order.toReversed()) {
    if (!selected.has(name)) continue
    const above = (dependents.get(name) ?? []).map((other) => stepKey('destroy', other))
    const last = above.length > 0 ? above : dropped.length > 0 ? dropped : first
    steps.push(...destroySteps(graph, name, last))
  }
  const isLast = [...state.deployed].every((name) => wanted.has(name))
  if ((graph.keepsSecrets || state.keepsSecrets) && isLast)
    steps.push(step('secrets-destroy', null, endsOf(steps, 'destroy')))
  return [...steps, ...aside(graph, 'post-teardown-all-components', lastOf(steps))]
}

/** What the app no longer has goes first, by its own version: what it stood on may still be in the app. */
function planDropped(
  graph: Graph,
  state: InstallState,
  wanted: ReadonlySet<string>,
  after: string[],
): PlannedStep[] {
  const names = [...wanted].filter((name) => !graph.dependencies.has(name)).toSorted()
  const graphs = new Map(
    names.flatMap((name) => {
      const app = state.dropped?.get(name)
      return app ? [[name, createGraph(app)]] : []
    }),
  )
  const needs = new Map(
    names.map((name) => {
      const own = graphs.get(name)
      const known = new Set(own ? own.order.filter((other) => names.includes(other)) : [])
      return [name, (own && selectedNeeds(own, known).get(name)) ?? []]
    }),
  )
  const dependents = reversed(needs)
  const steps: PlannedStep[] = []
  const seen = new Set<string>()
  // Versions may contradict each other: nothing waits for what waits for it.
  const visit = (name: string): void => {
    if (seen.has(name)) return
    seen.add(name)
    const above = dependents.get(name) ?? []
    for (const other of above) visit(other)
    const before = above.map((other) => stepKey('destroy', other))
    const made = before.filter((key) => steps.some((each) => each.key === key))
    steps.push(...destroySteps(graphs.get(name) ?? graph, name, made.length > 0 ? made : after))
  }
  for (const name of names) visit(name)
  return steps
}

function destroySteps(graph: Graph, name: string, after: string[]): PlannedStep[] {
  const steps: PlannedStep[] = []
  let last = after
  for (const action of graph.triggered('pre-teardown-component', name)) {
    steps.push(actionStep(action, name, last))
    last = [steps.at(-1)!.key]
  }
  steps.push(step('destroy', name, last))
  last = [stepKey('destroy', name)]
  for (const action of graph.triggered('post-teardown-component', name)) {
    steps.push(actionStep(action, name, last))
    last = [steps.at(-1)!.key]
  }
  return steps
}

/** What runs once, before or after all the others. */
function aside(graph: Graph, trigger: RunTrigger, after: string[]): PlannedStep[] {
  return graph.triggered(trigger, null).map((action) => actionStep(action, null, after))
}

function keysOf(steps: readonly PlannedStep[]): string[] {
  return steps.map(({ key }) => key)
}

/** Those that no other waits for. */
function lastOf(steps: readonly PlannedStep[]): string[] {
  const before = new Set(steps.flatMap(({ dependsOn }) => dependsOn))
  return keysOf(steps).filter((key) => !before.has(key))
}

function endsOf(steps: readonly PlannedStep[], of: 'deploy' | 'destroy' = 'deploy'): string[] {
  return steps.filter(({ kind }) => kind === of).map(({ key }) => key)
}

interface Graph {
  /** Every component after all that it depends on. */
  order: string[]
  dependencies: Map<string, string[]>
  types: Map<string, string>
  /** Some secret is to be in the install's cluster too. */
  keepsSecrets: boolean
  triggered(trigger: RunTrigger, component: string | null): TriggeredAction[]
}

function createGraph(app: App): Graph {
  return {
    order: dependencyOrder(app.components),
    dependencies: new Map(app.components.map((c) => [c.name, c.dependencies])),
    types: new Map(app.components.map((c) => [c.name, c.type])),
    keepsSecrets: kubernetesTargets(app).length > 0,
    triggered: (trigger, component) => triggeredActions(app, trigger, component),
  }
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

function actionStep(
  { name, key }: TriggeredAction,
  component: string | null,
  dependsOn: string[],
): PlannedStep {
  return { key, kind: 'action', component, action: name, dependsOn }
}

export function stepKey(kind: StepKind, component: string | null): string {
  return component === null ? kind : `${kind}:${component}`
}
