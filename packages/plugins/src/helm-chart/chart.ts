import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isVersion } from '@tenon/core'
import { parse } from 'yaml'
import { z } from 'zod'
import { PluginError } from '../sdk/errors.ts'

/** YAML reads `1.16` as a number; Helm takes it as text. */
const text = z.union([z.string(), z.number()]).transform(String)

const dependency = z.looseObject({
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/),
  version: text.default(''),
  repository: z.string().default(''),
  alias: z.string().optional(),
})
export type ChartDependency = z.infer<typeof dependency>

const metadata = z.looseObject({
  apiVersion: z.enum(['v1', 'v2']),
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, 'must be the name of a chart'),
  version: text,
  appVersion: text.optional(),
  dependencies: z.array(dependency).nullish(),
})

export interface Chart {
  folder: string
  name: string
  version: string
  appVersion: string | undefined
  dependencies: ChartDependency[]
  /** What Helm keeps as the config of its artifact. */
  metadata: Record<string, unknown>
}

/** In the order of Helm's own, so that the same chart gives the same config. */
const FIELDS = [
  'name',
  'home',
  'sources',
  'version',
  'description',
  'keywords',
  'maintainers',
  'icon',
  'apiVersion',
  'condition',
  'tags',
  'appVersion',
  'deprecated',
  'annotations',
  'kubeVersion',
  'dependencies',
  'type',
]

export async function readChart(folder: string): Promise<Chart> {
  const value = await readYamlFile(folder, 'Chart.yaml')
  if (value === undefined) throw invalidChart('it has no Chart.yaml')
  const parsed = metadata.safeParse(value)
  if (!parsed.success) {
    const issues = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
    throw invalidChart(`its Chart.yaml is wrong (${issues.slice(0, 5).join('; ')})`)
  }
  const { name, version, appVersion } = parsed.data
  if (!isVersion(version)) throw invalidChart(`its version ${JSON.stringify(version)} is no semantic version`)
  const required = z.looseObject({ dependencies: z.array(dependency).nullish() })
  const older = required.safeParse((await readYamlFile(folder, 'requirements.yaml')) ?? {})
  const dependencies = parsed.data.dependencies ?? older.data?.dependencies ?? []
  const known = FIELDS.flatMap((field) => {
    const given = (parsed.data as Record<string, unknown>)[field]
    return given === undefined || given === null ? [] : [[field, given] as const]
  })
  return { folder, name, version, appVersion, dependencies, metadata: Object.fromEntries(known) }
}

/** Undefined when the file is absent. */
export async function readYamlFile(folder: string, name: string): Promise<unknown> {
  const content = await readFile(join(folder, name), 'utf8').catch(() => undefined)
  if (content === undefined) return undefined
  try {
    return parse(content, { maxAliasCount: 1000, logLevel: 'silent' }) as unknown
  } catch (cause) {
    throw invalidChart(`its ${name} is not YAML: ${String((cause as Error).message.split('\n')[0])}`, cause)
  }
}

export function invalidChart(why: string, cause?: unknown): PluginError {
  return new PluginError(
    'artifact_invalid',
    `The chart cannot be packed: ${why}.`,
    'Correct the chart.',
    cause,
  )
}
