import { graphProblems, type App, type Component, type GraphProblem, type Json } from '@tenon/core'
import { name as nameSchema } from '@tenon/protocol'
import { readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { CliError, errorCode } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { locate } from './locate.ts'
import { formatProblem, type ConfigProblem } from './problem.ts'
import { componentFile, metadataFile, OWN_FIELDS, type ComponentFile } from './schema.ts'
import { findSource } from './source-folder.ts'
import { checkToml, readToml, type TomlFile } from './toml-file.ts'

export interface LoadedApp {
  app: App
  /** The folder of each component's source, by component. */
  sources: Map<string, string>
  /** Files that this version does not act on. */
  unused: string[]
}

/** Reads a folder of TOML files into one app; every mistake in it is reported at once. */
export async function loadApp(folder: string, givenName?: string): Promise<LoadedApp> {
  await checkFolder(folder)
  const problems: ConfigProblem[] = []
  const metadata = await loadMetadata(folder, problems)
  const parts = await loadComponents(folder, problems)
  const app: App = {
    name: appName(folder, givenName, metadata),
    displayName: metadata?.display_name ?? '',
    description: metadata?.description ?? '',
    components: parts.map((part) => part.component),
  }
  for (const problem of graphProblems(app.components)) problems.push(placeGraphProblem(problem, parts))
  if (problems.length > 0) throw configError(folder, problems)
  app.displayName ||= app.name
  return {
    app,
    sources: new Map(parts.map((part) => [part.component.name, part.source])),
    unused: await unusedFiles(folder),
  }
}

interface Part {
  component: Component
  source: string
  toml: TomlFile
}

async function loadMetadata(folder: string, problems: ConfigProblem[]) {
  const before = problems.length
  const toml = await readToml(folder, 'metadata.toml', problems)
  if (toml) return checkToml(toml, metadataFile, problems)
  if (problems.length === before) {
    const expected = 'a file with display_name and description'
    problems.push({ file: 'metadata.toml', line: 1, column: 1, message: 'the file is missing', expected })
  }
  return undefined
}

async function loadComponents(folder: string, problems: ConfigProblem[]): Promise<Part[]> {
  const files = await componentFiles(folder)
  if (files.length === 0) {
    const expected = 'at least one file such as components/web.toml'
    problems.push({ file: 'components', line: 1, column: 1, message: 'there is no component', expected })
  }
  const parts: Part[] = []
  for (const file of files) {
    const toml = await readToml(folder, file, problems)
    const value = toml && checkToml(toml, componentFile, problems)
    if (!toml || !value) continue
    const source = await findSource(folder, file, value.source)
    if (source.ok) parts.push({ component: toComponent(value), source: source.folder, toml })
    else
      problems.push({
        file,
        ...locate(toml.text, ['source']),
        message: source.message,
        expected: source.expected,
      })
  }
  return parts
}

async function componentFiles(folder: string): Promise<string[]> {
  try {
    const found = await readdir(join(folder, 'components'))
    return found
      .filter((file) => file.endsWith('.toml'))
      .toSorted()
      .map((file) => join('components', file))
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT' || errorCode(cause) === 'ENOTDIR') return []
    throw cause
  }
}

function toComponent(value: ComponentFile): Component {
  const config = Object.entries(value).filter(([key]) => !OWN_FIELDS.has(key))
  // TOML dates become their text: the configuration travels as JSON.
  const json = JSON.parse(JSON.stringify(Object.fromEntries(config))) as { [key: string]: Json }
  return { name: value.name, type: value.type, dependencies: value.dependencies, config: json }
}

function appName(
  folder: string,
  given: string | undefined,
  metadata: { name?: string | undefined; display_name?: string | undefined } | undefined,
): string {
  const wanted = given ?? metadata?.name
  if (wanted !== undefined) {
    if (nameSchema.safeParse(wanted).success) return wanted
    throw new CliError(EXIT.usage, `${JSON.stringify(wanted)} cannot name an app: use a-z, 0-9 and -`)
  }
  for (const words of [metadata?.display_name, basename(folder)]) {
    const slug = slugOf(words ?? '')
    if (slug !== '') return slug
  }
  throw new CliError(EXIT.usage, 'the app has no name', { next: 'add --name NAME' })
}

function slugOf(words: string): string {
  const plain = words.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
  return plain
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 63)
    .replace(/^-+|-+$/g, '')
}

function placeGraphProblem(problem: GraphProblem, parts: readonly Part[]): ConfigProblem {
  const at = (component: string, key: string) => {
    const { toml } = parts.findLast((part) => part.component.name === component)!
    return { file: toml.file, ...locate(toml.text, [key]) }
  }
  switch (problem.code) {
    case 'duplicate_component':
      return {
        ...at(problem.component, 'name'),
        message: `another component is named ${problem.component}`,
        expected: 'a name of its own',
      }
    case 'unknown_dependency': {
      const known = parts.map((part) => part.component.name).join(', ')
      return {
        ...at(problem.component, 'dependencies'),
        message: `there is no component ${problem.dependency}`,
        expected: `one of ${known}`,
      }
    }
    case 'dependency_cycle':
      return {
        ...at(problem.path[0]!, 'dependencies'),
        message: `the components depend on each other: ${problem.path.join(' → ')}`,
        expected: 'no cycle',
      }
  }
}

const ACTS_ON = new Set(['metadata.toml'])

async function unusedFiles(folder: string): Promise<string[]> {
  const found = await readdir(folder)
  return found.filter((file) => file.endsWith('.toml') && !ACTS_ON.has(file)).toSorted()
}

async function checkFolder(folder: string): Promise<void> {
  const found = await stat(folder).catch(() => undefined)
  if (found?.isDirectory()) return
  throw new CliError(EXIT.usage, `${folder} is no folder`, {
    next: 'name the folder that holds metadata.toml',
  })
}

function configError(folder: string, problems: readonly ConfigProblem[]): CliError {
  const count = problems.length === 1 ? 'one mistake' : `${problems.length} mistakes`
  return new CliError(EXIT.usage, `the app config in ${folder} has ${count}`, {
    lines: problems.map(formatProblem),
    next: 'correct them and run the command again',
  })
}
