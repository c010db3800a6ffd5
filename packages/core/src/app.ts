import type { EgressName } from './egress-names.ts'
import type { Json } from './json.ts'

/** What a vendor ships: one immutable version of it. A part that is absent is empty. */
export interface App {
  name: string
  displayName: string
  description: string
  components: Component[]
  inputs?: AppInput[]
  inputGroups?: InputGroup[]
  secrets?: AppSecret[]
  policies?: AppPolicy[]
  actions?: AppAction[]
  /** Files that are kept for later and that nothing acts on yet, by their path. */
  carried?: { [file: string]: Json }
}

export interface Component {
  name: string
  type: string
  dependencies: string[]
  /** The type's own configuration, checked by its plugin. Its strings are templates, rendered in the install. */
  config: { [key: string]: Json }
  /** The name under which templates find it besides its own. */
  varName?: string
  source?: ComponentSource
  settings?: ComponentSettings
}

/** Where a build gets what it builds. None of these: the type's own configuration says it (an image, a chart repository). */
export type ComponentSource =
  /** Sent by the CLI, or by whatever calls the API, as an archive. */
  { kind: 'folder' } | { kind: 'git'; repo: string; ref: string; directory: string }

export interface ComponentSettings {
  labels?: { [key: string]: string }
  toggleable?: boolean
  /** What counts while an install does not say otherwise; only asked when `toggleable`. */
  defaultEnabled?: boolean
  buildTimeoutSeconds?: number
  deployTimeoutSeconds?: number
  maxAutoRetries?: number
  /** Nothing changes and what runs is healthy: the deploy is left out. */
  skipNoops?: boolean
  autoApproveOnPoliciesPassing?: boolean
  /** Cron, in UTC. */
  driftSchedule?: string
  /** Images that the component uses without naming them where a build can see it. */
  images?: string[]
  /** What its jobs call besides the install's registry, cluster and outputs. Absent: nothing is narrowed. */
  egress?: EgressName[]
  health?: ComponentHealth
}

export interface ComponentHealth {
  probes: { name: string; type: 'http' | 'tcp' | 'exec'; url?: string; command?: string }[]
  blockDeploy: boolean
  stabilizationSeconds: number
}

export const INPUT_TYPES = ['string', 'number', 'list', 'json', 'bool', 'yaml', 'hcl'] as const

export interface AppInput {
  name: string
  displayName: string
  description: string
  group: string
  type: (typeof INPUT_TYPES)[number]
  required: boolean
  /** Its value is sealed to the install and never reaches the server. */
  sensitive: boolean
  /** Set by the vendor alone. */
  internal: boolean
  /** Set by the customer. */
  userConfigurable: boolean
  default?: Json
}

export interface InputGroup {
  name: string
  displayName: string
  description: string
}

export interface AppSecret {
  name: string
  displayName: string
  description: string
  required: boolean
  autoGenerate: boolean
  format: 'base64' | ''
  default?: string
  /** Where the install's cluster has it too. Namespace and name are templates. */
  kubernetes?: { namespace: string; name: string }
  /** Further places, each with the key under which it stands. */
  kubernetesTargets?: { namespace: string; name: string; key: string }[]
}

/** Every place in the install's cluster that keeps a secret, in the order of the app. */
export function kubernetesTargets(
  app: App,
): { secret: AppSecret; namespace: string; name: string; key: string }[] {
  return (app.secrets ?? []).flatMap((secret) => {
    const own = secret.kubernetes ? [{ ...secret.kubernetes, key: KUBERNETES_KEY }] : []
    return [...own, ...(secret.kubernetesTargets ?? [])].map((place) => ({ secret, ...place }))
  })
}

/** As existing charts expect it. */
export const KUBERNETES_KEY = 'value'

/** `cel` acts; the other engines are kept for later. */
export interface AppPolicy {
  name: string
  type: string
  engine: 'cel' | 'opa' | 'kyverno'
  contents: string
  /** Empty: all of the type. */
  components: string[]
}

export interface AppAction {
  name: string
  timeoutSeconds: number
  dependencies: string[]
  triggers: { type: string; component?: string; cron?: string; index?: number }[]
  steps: ActionStep[]
  labels?: { [key: string]: string }
  role?: string
  enableKubeConfig?: boolean
  /** What its jobs call. Absent: nothing is narrowed. */
  egress?: EgressName[]
}

export interface ActionStep {
  name: string
  command?: string
  inlineContents?: string
  env?: { [key: string]: string }
  source?: ComponentSource
}

export type GraphProblem =
  | { code: 'unknown_dependency'; component: string; dependency: string }
  | { code: 'duplicate_component'; component: string }
  | { code: 'dependency_cycle'; path: string[] }

/** Every mistake of the graph at once; an empty list means that `dependencyOrder` is defined. */
export function graphProblems(components: readonly Component[]): GraphProblem[] {
  const problems: GraphProblem[] = []
  const byName = new Map<string, Component>()
  for (const component of components) {
    if (byName.has(component.name)) problems.push({ code: 'duplicate_component', component: component.name })
    byName.set(component.name, component)
  }
  for (const component of components) {
    for (const dependency of component.dependencies) {
      if (!byName.has(dependency))
        problems.push({ code: 'unknown_dependency', component: component.name, dependency })
    }
  }
  const cycle = findCycle(byName)
  if (cycle) problems.push({ code: 'dependency_cycle', path: cycle })
  return problems
}

/** Names with every dependency before its dependents; ties by name, so that the order is the same every time. */
export function dependencyOrder(components: readonly Component[]): string[] {
  const open = new Map(components.map((c) => [c.name, new Set(c.dependencies).size]))
  const dependents = new Map<string, string[]>()
  for (const { name, dependencies } of components) {
    for (const dependency of new Set(dependencies)) {
      const known = dependents.get(dependency)
      if (known) known.push(name)
      else dependents.set(dependency, [name])
    }
  }
  const order: string[] = []
  let level = [...open].filter(([, count]) => count === 0).map(([name]) => name)
  while (level.length > 0) {
    level.sort()
    order.push(...level)
    const next: string[] = []
    for (const dependent of level.flatMap((name) => dependents.get(name) ?? [])) {
      const left = open.get(dependent)! - 1
      open.set(dependent, left)
      if (left === 0) next.push(dependent)
    }
    level = next
  }
  if (order.length < open.size)
    throw new Error('the graph has a cycle or an unknown name: ask graphProblems first')
  return order
}

function findCycle(byName: Map<string, Component>): string[] | undefined {
  const done = new Set<string>()
  for (const start of byName.keys()) {
    const cycle = walk(start, [])
    if (cycle) return cycle
  }
  return undefined

  function walk(name: string, path: string[]): string[] | undefined {
    if (done.has(name)) return undefined
    const seenAt = path.indexOf(name)
    if (seenAt >= 0) return [...path.slice(seenAt), name]
    for (const dependency of byName.get(name)?.dependencies ?? []) {
      const cycle = byName.has(dependency) ? walk(dependency, [...path, name]) : undefined
      if (cycle) return cycle
    }
    done.add(name)
    return undefined
  }
}
