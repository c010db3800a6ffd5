import {
  ConfigRenderError,
  graphProblems,
  withTemplateDependencies,
  type App,
  type GraphProblem,
  type ReferencesOf,
} from '@tenon/core'
import { name as nameSchema } from '@tenon/protocol'
import { basename } from 'node:path'
import { z } from 'zod'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { checkFile } from './check-file.ts'
import { checkMeaning } from './check-meaning.ts'
import { checkNames } from './check-names.ts'
import { checkPolicies } from './check-policies.ts'
import { checkTemplates, knownNames, rememberReferences } from './check-templates.ts'
import { findFiles, type ConfigFile } from './find-files.ts'
import { findCheckout } from './git-checkout.ts'
import { includeFiles } from './include-files.ts'
import type { InstallConfig } from './install-config.ts'
import { looksLikeConfig } from './looks-like-config.ts'
import { expectOneOf } from './nearest.ts'
import { collectParts, type LoadedFile, type Parts } from './parts.ts'
import { Findings, formatProblem, type ConfigWarning, type Found, type IdleField } from './problem.ts'
import { common, COMPONENT_TYPES, JOB_MESSAGE, OLDER_TYPES } from './schemas/components.ts'
import { FILE_KINDS, type FileKind } from './schemas/kinds.ts'
import { isFolder, readToml, type TomlFile } from './toml-file.ts'

export interface LoadedApp {
  app: App
  /** The folder of each component's source that is sent, by component. */
  sources: Map<string, string>
  installs: InstallConfig[]
  warnings: ConfigWarning[]
  /** Fields that nothing acts on yet. */
  idle: IdleField[]
  kept: Found['kept']
}

export type Inspection = { ok: true; loaded: LoadedApp } | ({ ok: false } & Found)

/** Reads a folder of TOML files into one app; every mistake in it is reported at once. */
export async function loadApp(folder: string, givenName?: string): Promise<LoadedApp> {
  const found = await inspectApp(folder, givenName)
  if (found.ok) return found.loaded
  const count = found.problems.length === 1 ? 'one mistake' : `${found.problems.length} mistakes`
  throw new CliError(EXIT.usage, `the app config in ${folder} has ${count}`, {
    lines: found.problems.map(formatProblem),
    next: 'correct them and run the command again',
  })
}

/** The same, for those who want to see what is wrong. */
export async function inspectApp(folder: string, givenName?: string): Promise<Inspection> {
  await requireFolder(folder)
  const findings = new Findings()
  const listed = await findFiles(folder, findings)
  // Components with mistakes of their own still exist: nobody else is told that they do not.
  const named = new Set<string>()
  const foreign = new Set<ConfigFile>()
  const read = await Promise.all(listed.map((file) => loadFile(folder, file, findings, { named, foreign })))
  const files = read.filter((file) => file !== undefined)
  const sound = files.filter((file) => file.sound)
  requireParts(
    listed.filter((file) => !foreign.has(file)),
    findings,
  )
  const parts = await collectParts(folder, await findCheckout(folder), sound)
  checkNames(sound, parts)
  checkPolicies(parts)
  const names = knownNames({
    components: [...parts.components.map(({ value }) => value), ...[...named].map((name) => ({ name }))],
    inputs: parts.inputs.map(({ value }) => value),
    secrets: parts.secrets.map(({ value }) => value),
  })
  const referencesOf = rememberReferences()
  for (const { toml, kind } of files) checkTemplates(toml, kind, names, referencesOf, findings)
  const app = assemble(folder, givenName, files, parts)
  const graph = checkGraph(app, parts, named, referencesOf)
  const sorted = findings.sorted()
  if (sorted.problems.length > 0) return { ok: false, ...sorted }
  const { warnings, idle, kept } = sorted
  const sources = parts.components.flatMap(({ value, folder: from }) =>
    from === undefined ? [] : [[value.name, from] as const],
  )
  return {
    ok: true,
    loaded: { app: graph, sources: new Map(sources), installs: parts.installs, warnings, idle, kept },
  }
}

async function loadFile(
  folder: string,
  listed: ConfigFile,
  findings: Findings,
  { named, foreign }: { named: Set<string>; foreign: Set<ConfigFile> },
): Promise<(LoadedFile & { sound: boolean }) | undefined> {
  const { file, kind, many, unsure } = listed
  const toml = readToml(folder, file, findings)
  if (!toml) return undefined
  if (unsure && !looksLikeConfig(kind, toml.value)) {
    foreign.add(listed)
    return undefined
  }
  const name = toml.value['name']
  if (kind === 'component' && typeof name === 'string') named.add(name)
  const isList = many?.lists.some((field) => Array.isArray(toml.value[field]))
  const found = kind === 'component' ? componentKind(toml) : FILE_KINDS.get(isList ? many!.kind : kind)
  if (!found) return undefined
  await includeFiles(folder, toml, found)
  const before = findings.problems.length
  const fits = checkFile(toml, found) && found !== UNKNOWN_COMPONENT
  if (fits) checkMeaning(toml, found.name)
  return { toml, kind: found, sound: fits && findings.problems.length === before }
}

/** What can still be checked of a component whose type is not known. */
const UNKNOWN_COMPONENT: FileKind = {
  name: 'component-unknown',
  title: 'a component',
  schema: z.looseObject(common),
}

function componentKind(toml: TomlFile): FileKind {
  const types = Object.keys(COMPONENT_TYPES)
  const type = toml.value['type']
  if (type === undefined) toml.problem(['type'], 'type is missing', `one of ${types.join(', ')}`)
  else if (type === 'job') toml.problem(['type'], JOB_MESSAGE, 'an action in actions/')
  else if (typeof type !== 'string') toml.problem(['type'], 'type has a wrong value', 'a string')
  else {
    const found = FILE_KINDS.get(`component-${OLDER_TYPES[type] ?? type}`)
    if (found) return found
    toml.problem(['type'], `there is no component type ${type}`, expectOneOf(type, types))
  }
  return UNKNOWN_COMPONENT
}

function requireParts(listed: readonly ConfigFile[], findings: Findings): void {
  const missing = (file: string, message: string, expected: string) =>
    findings.problems.push({ file, line: 1, column: 1, message, expected })
  if (!listed.some((file) => file.kind === 'metadata'))
    missing('metadata.toml', 'the file is missing', 'a file with version, display_name and description')
  if (!listed.some((file) => file.kind === 'component'))
    missing('components', 'there is no component', 'at least one file such as components/web.toml')
}

function assemble(
  folder: string,
  given: string | undefined,
  files: readonly LoadedFile[],
  parts: Parts,
): App {
  const metadata = files.find((file) => file.kind.name === 'metadata')?.toml.value ?? {}
  const words = (key: string) => (typeof metadata[key] === 'string' ? metadata[key] : undefined)
  const name = appName(folder, given ?? words('name'), words('display_name'))
  const values = <T>(list: readonly { value: T }[]): T[] => list.map(({ value }) => value)
  const optional = {
    inputs: values(parts.inputs),
    inputGroups: values(parts.groups),
    secrets: values(parts.secrets),
    policies: values(parts.policies),
    actions: values(parts.actions),
  }
  return {
    name,
    displayName: words('display_name') || name,
    description: words('description') ?? '',
    components: values(parts.components),
    ...Object.fromEntries(Object.entries(optional).filter(([, list]) => list.length > 0)),
    ...(Object.keys(parts.carried).length > 0 ? { carried: parts.carried } : {}),
  }
}

function appName(folder: string, wanted: string | undefined, displayName: string | undefined): string {
  if (wanted !== undefined) {
    if (nameSchema.safeParse(wanted).success) return wanted
    throw new CliError(EXIT.usage, `${JSON.stringify(wanted)} cannot name an app: use a-z, 0-9 and -`)
  }
  for (const words of [displayName, basename(folder)]) {
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

/** The app with what its templates depend on; its graph must be sound. */
function checkGraph(app: App, parts: Parts, named: ReadonlySet<string>, referencesOf: ReferencesOf): App {
  const whole = withTemplates(app, referencesOf)
  for (const problem of graphProblems(whole.components)) {
    if (problem.code !== 'unknown_dependency' || !named.has(problem.dependency)) reportGraph(problem, parts)
  }
  return whole
}

/** A template that does not parse has been told already. */
function withTemplates(app: App, referencesOf: ReferencesOf): App {
  try {
    return withTemplateDependencies(app, referencesOf)
  } catch (error) {
    if (error instanceof ConfigRenderError) return app
    throw error
  }
}

function reportGraph(problem: GraphProblem, parts: Parts): void {
  const tomlOf = (component: string) =>
    parts.components.findLast(({ value }) => value.name === component)!.toml
  switch (problem.code) {
    case 'duplicate_component':
      return tomlOf(problem.component).problem(
        ['name'],
        `another component is named ${problem.component}`,
        'a name of its own',
      )
    case 'unknown_dependency': {
      const holds = (part: Parts['components'][number]) =>
        part.value.name === problem.component && part.value.dependencies.includes(problem.dependency)
      const { toml } = parts.components.find(holds)!
      const index = (toml.value['dependencies'] as string[]).indexOf(problem.dependency)
      const names = parts.components.map(({ value }) => value.name)
      return toml.problem(
        ['dependencies', index],
        `there is no component ${problem.dependency}`,
        expectOneOf(problem.dependency, names),
      )
    }
    case 'dependency_cycle':
      return tomlOf(problem.path[0]!).problem(
        ['dependencies'],
        `the components depend on each other: ${problem.path.join(' → ')}`,
        'no cycle',
      )
  }
}

async function requireFolder(folder: string): Promise<void> {
  if (await isFolder(folder)) return
  throw new CliError(EXIT.usage, `${folder} is no folder`, {
    next: 'name the folder that holds metadata.toml',
  })
}
