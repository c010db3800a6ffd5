import { dependencyOrder, withTemplateDependencies, type App, type Component } from '@tenon/core'
import { stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { loadApp } from '../app-config/load-app.ts'
import type { Cli } from '../cli.ts'
import { newestVersion } from './app-version.ts'

/** What depends on what, of a config folder or of an app that the server has. */
export async function showGraph(
  cli: Cli,
  target: string,
  options: { dot?: true | undefined },
): Promise<void> {
  const { out } = cli
  const app = await appOf(cli, target)
  const levels = levelsOf(app.components)
  const edges = app.components.flatMap(({ name, dependencies }) =>
    dependencies.map((before) => [before, name] as const),
  )
  if (cli.globals.json)
    return out.json({ app: app.name, levels, edges: edges.map(([from, to]) => ({ from, to })) })
  if (options.dot) {
    out.line(`digraph ${JSON.stringify(app.name)} {`)
    out.line('  rankdir = LR')
    for (const { name, type } of app.components)
      out.line(`  ${JSON.stringify(name)} [label=${JSON.stringify(`${name}\n${type}`)}]`)
    for (const [before, name] of edges) out.line(`  ${JSON.stringify(before)} -> ${JSON.stringify(name)}`)
    return out.line('}')
  }
  for (const [i, names] of levels.entries()) {
    out.line(`level ${i + 1}`)
    for (const name of names) {
      const { type, dependencies } = app.components.find((component) => component.name === name)!
      out.line(`  ${name} (${type})${dependencies.length > 0 ? ` after ${dependencies.join(', ')}` : ''}`)
    }
  }
}

/** Components of one level may be deployed at once; each comes after all it depends on. */
export function levelsOf(components: readonly Component[]): string[][] {
  const byName = new Map(components.map((component) => [component.name, component]))
  const levels = new Map<string, number>()
  for (const name of dependencyOrder(components)) {
    const before = byName.get(name)!.dependencies.map((dependency) => levels.get(dependency)!)
    levels.set(name, Math.max(-1, ...before) + 1)
  }
  const found: string[][] = []
  for (const [name, level] of levels) (found[level] ??= []).push(name)
  return found
}

async function appOf(cli: Cli, target: string): Promise<App> {
  const folder = resolve(cli.io.cwd, target)
  const isFolder = await stat(join(folder, 'metadata.toml')).then(
    () => true,
    () => false,
  )
  if (isFolder || /^\.|[/\\]/.test(target)) return (await loadApp(folder)).app
  return withTemplateDependencies((await newestVersion(await cli.client(), target)).app)
}
