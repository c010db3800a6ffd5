import type { Json } from '@tenon/core'
import type { z } from 'zod'
import type { Path } from './locate.ts'
import { expectOneOf, nearest } from './nearest.ts'
import type { FieldMeta } from './schemas/fields.ts'
import type { FileKind } from './schemas/kinds.ts'
import type { TomlFile } from './toml-file.ts'

export interface Field {
  path: Path
  meta: FieldMeta
  value: Json
}

/** Visits every described field that a value holds, outer ones first; `visit` says whether to go on inside. */
export function walkFields(
  schema: z.core.$ZodType,
  value: Json | undefined,
  visit: (field: Field) => boolean,
  path: Path = [],
): void {
  const { inner, meta } = unwrap(schema, value)
  if (value === undefined) return
  if (meta && path.length > 0 && !visit({ path, meta, value })) return
  if (typeof value !== 'object' || value === null) return
  for (const [key, child] of Object.entries(value)) {
    const below = childSchema(inner, key)
    if (below) walkFields(below, child, visit, [...path, Array.isArray(value) ? Number(key) : key])
  }
}

/** Checks a file against its kind; each mistake becomes a problem at the place it is about. */
export function checkFile(toml: TomlFile, kind: FileKind): boolean {
  const result = kind.schema.safeParse(toml.value)
  if (!result.success) for (const issue of result.error.issues) report(toml, kind, issue)
  const seen = new Set<string>()
  walkFields(kind.schema, toml.value, ({ path, meta, value }) => {
    const field = path.filter((key) => typeof key === 'string').join('.')
    const older = typeof value === 'string' ? meta.older?.[value] : undefined
    if (older !== undefined)
      toml.warning(
        path,
        `${field} = ${JSON.stringify(value)} is an older spelling; write ${JSON.stringify(older)}`,
      )
    if (meta.tenon === 'acts') return true
    if (meta.tenon === 'warned')
      toml.warning(path, `${field} is set aside: ${meta.note ?? 'nothing reads it'}`)
    const parents = path
      .filter((key) => typeof key === 'string')
      .map((_, i, keys) => keys.slice(0, i + 1).join('.'))
    if (!parents.some((parent) => seen.has(parent))) toml.idle(field, meta.tenon)
    seen.add(field)
    return true
  })
  return result.success
}

/** What of a value nothing acts on, in its own shape; undefined when there is nothing of that kind. */
export function idlePart(schema: z.core.$ZodType, value: Json): Json | undefined {
  const { inner, meta } = unwrap(schema, value)
  if (meta && meta.tenon !== 'acts') return value
  if (Array.isArray(value)) {
    const element = childSchema(inner, '0')
    const kept = value.map((child) => (element ? idlePart(element, child) : undefined))
    return kept.some((child) => child !== undefined) ? kept.map((child) => child ?? {}) : undefined
  }
  if (typeof value !== 'object' || value === null || !('shape' in inner)) return undefined
  const kept: [string, Json][] = []
  for (const [key, child] of Object.entries(value)) {
    const below = childSchema(inner, key)
    const part = below && idlePart(below, child)
    if (part !== undefined) kept.push([key, part])
  }
  return kept.length > 0 ? Object.fromEntries(kept) : undefined
}

function report(toml: TomlFile, kind: FileKind, issue: z.core.$ZodIssue): void {
  const path = issue.path.map((key) => (typeof key === 'symbol' ? String(key) : key))
  if (issue.code === 'unrecognized_keys') {
    const known = knownKeys(kind.schema, toml.value, path)
    for (const key of issue.keys) {
      const field = [...path, key]
      toml.problem(field, `there is no field ${fieldName(field)} in ${kind.title}`, expectOneOf(key, known))
    }
    return
  }
  const given = valueAt(toml.value, path)
  const name = fieldName(path)
  const what = given === undefined ? `${name} is missing` : `${name} has a wrong value`
  toml.problem(path, what, expectation(issue, given))
}

function expectation(issue: z.core.$ZodIssue, given: Json | undefined): string {
  if (issue.code === 'invalid_type') return ARTICLES[issue.expected] ?? issue.expected
  if (issue.code === 'invalid_value') return oneOfValues(issue.values.map(String), given)
  if (issue.code === 'invalid_key') return issue.issues[0]?.message.replace(/^must be /, '') ?? issue.message
  if (issue.code === 'too_big') return `at most ${String(issue.maximum)}${UNITS[issue.origin] ?? ''}`
  if (issue.code === 'too_small' && !issue.message.startsWith('must'))
    return issue.origin === 'string' ? 'some text' : `at least ${String(issue.minimum)}`
  return issue.message.replace(/^must be /, '').replace(/^Invalid input: expected /, '')
}

function oneOfValues(known: readonly string[], given: Json | undefined): string {
  const shown = known.filter((value) => value !== '').map((value) => JSON.stringify(value))
  const near = typeof given === 'string' ? nearest(given, known) : undefined
  if (near !== undefined && known.length > 4) return JSON.stringify(near)
  return shown.length > 1 ? `${shown.slice(0, -1).join(', ')} or ${shown.at(-1)}` : (shown[0] ?? 'nothing')
}

const UNITS: Record<string, string> = { string: ' characters', array: ' of them' }

const ARTICLES: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a table',
  record: 'a table',
}

/** `steps[1].name`, as people write it. */
export function fieldName(path: Path): string {
  return (
    path.map((key, i) => (typeof key === 'number' ? `[${key}]` : `${i > 0 ? '.' : ''}${key}`)).join('') ||
    'the file'
  )
}

export function valueAt(value: Json | undefined, path: Path): Json | undefined {
  return path.reduce<Json | undefined>((at, key) => {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    return (at as { [key: string]: Json })[key]
  }, value)
}

function knownKeys(schema: z.core.$ZodType, value: Json, path: Path): string[] {
  let at = schema
  let inside: Json | undefined = value
  for (const key of path) {
    at = childSchema(unwrap(at, inside).inner, String(key)) ?? at
    inside = valueAt(inside, [key])
  }
  const { inner } = unwrap(at, inside)
  return 'shape' in inner ? Object.keys((inner as z.ZodObject).shape) : []
}

type Def = {
  type: string
  innerType?: z.core.$ZodType
  options?: readonly z.core.$ZodType[]
  element?: z.core.$ZodType
  valueType?: z.core.$ZodType
}

/** The schema under `optional` and the like, of a union the option that fits, and the nearest description. */
function unwrap(
  schema: z.core.$ZodType,
  value: Json | undefined,
): { inner: z.core.$ZodType; meta: FieldMeta | undefined } {
  let inner = schema
  let meta: FieldMeta | undefined
  for (;;) {
    meta ??= metaOf(inner)
    const def = inner._zod.def as unknown as Def
    if (def.innerType) inner = def.innerType
    else if (def.options) inner = fitting(def.options, value)
    else return { inner, meta }
  }
}

function fitting(options: readonly z.core.$ZodType[], value: Json | undefined): z.core.$ZodType {
  const wanted = Array.isArray(value) ? ['array'] : typeof value === 'object' ? ['object', 'record'] : []
  return options.find((option) => wanted.includes((option._zod.def as unknown as Def).type)) ?? options[0]!
}

function metaOf(schema: z.core.$ZodType): FieldMeta | undefined {
  const found = (schema as z.ZodType).meta() as FieldMeta | undefined
  return found?.tenon === undefined ? undefined : found
}

function childSchema(schema: z.core.$ZodType, key: string): z.core.$ZodType | undefined {
  if ('shape' in schema) {
    const { shape } = schema as z.ZodObject
    return Object.hasOwn(shape, key) ? shape[key] : undefined
  }
  const def = schema._zod.def as unknown as Def
  return def.element ?? def.valueType
}
