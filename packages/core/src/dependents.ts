import type { Component } from './app.ts'

/** What stands on these, also through others, in the order of the app; without themselves. */
export function dependentsOf(components: readonly Component[], names: ReadonlySet<string>): string[] {
  const found = new Set<string>()
  const below = (component: Component) => component.dependencies.some((d) => names.has(d) || found.has(d))
  const next = () => components.find((c) => !names.has(c.name) && !found.has(c.name) && below(c))
  for (let more = next(); more; more = next()) found.add(more.name)
  return components.map(({ name }) => name).filter((name) => found.has(name))
}
