import type { Json } from './json.ts'

/** What a vendor ships. Issue D widens it; what is here is what the planner needs. */
export interface App {
  name: string
  displayName: string
  description: string
  components: Component[]
}

export interface Component {
  name: string
  type: string
  dependencies: string[]
  /** The type's own configuration, checked by its plugin. */
  config: { [key: string]: Json }
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
  const waitingFor = new Map(components.map((c) => [c.name, new Set(c.dependencies)]))
  const order: string[] = []
  while (waitingFor.size > 0) {
    const free = [...waitingFor].filter(([, deps]) => deps.size === 0).map(([name]) => name)
    if (free.length === 0)
      throw new Error('the graph has a cycle or an unknown name: ask graphProblems first')
    for (const name of free.toSorted()) {
      order.push(name)
      waitingFor.delete(name)
      for (const deps of waitingFor.values()) deps.delete(name)
    }
  }
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
