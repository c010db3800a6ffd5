import type { Json } from '@tenon/core'
import type { z } from 'zod'
import type { Path } from './locate.ts'
import { expectOneOf, nearest } from './nearest.ts'
import type { FieldMeta } from './schemas/fields.ts'
import type { FileKind } from './schemas/kinds.ts'
import type { TomlFile } from './toml-file.ts'

export interface Field {
  /** The walk's own: whoever keeps it copies it. */
  path: Path
  meta: FieldMeta
  value: Json
}

/** Visits every described field that a value holds, outer ones first. */
export function walkFields(schema: z.core.$ZodType, value: Json, visit: (field: Field) => void): void {
  walk(schema, value, [], visit)
}

function walk(
  schema: z.core.$ZodType,
  value: Json,
  path: (string | number)[],
  visit: (field: Field) => void,
): void {
  const { meta, below } = nodeOf(schema, value)
  if (meta && path.length > 0) visit({ path, meta, value })
  if (typeof value !== 'object' || value === null) return
  const isList = Array.isArray(value)
  for (const [key, child] of Object.entries(value)) {
    const schemaBelow = below(key)
    if (!schemaBelow) continue
    path.push(isList ? Number(key) : key)
    walk(schemaBelow, child, path, visit)
    path.pop()
  }
}

const described = new WeakMap<z.core.$ZodType, FieldMeta[]>()

/** Whether any field of a schema is described so. */
export function hasField(schema: z.core.$ZodType, test: (meta: FieldMeta) => boolean | undefined): boolean {
  let known = described.get(schema)
  if (!known) described.set(schema, (known = [...descriptionsIn(schema)]))
  return known.some(test)
}

function* descriptionsIn(schema: z.core.$ZodType): Generator<FieldMeta> {
  const { meta, shape, below } = nodeOf(schema, undefined)
  if (meta) yield meta
  if (shape) for (const child of Object.values(shape)) yield* descriptionsIn(child)
  else {
    const each = below('0')
    if (each) yield* descriptionsIn(each)
  }
}

/** Checks a file against its kind; each mistake becomes a problem at the place it is about. */
export function checkFile(toml: TomlFile, kind: FileKind): boolean {
  const result = kind.schema.safeParse(toml.value)
  if (!result.success) for (const issue of result.error.issues) report(toml, kind, issue)
  const seen = new Set<string>()
  walkFields(kind.schema, toml.value, (field) => {
    if (field.meta.tenon !== 'acts' || field.meta.older || field.meta.idleValues)
      tell(toml, kind.name, field, seen)
  })
  return result.success
}

function tell(toml: TomlFile, kind: string, { path, meta, value }: Field, seen: Set<string>): void {
  const keys = path.filter((key) => typeof key === 'string')
  const field = keys.join('.')
  const older = typeof value === 'string' ? meta.older?.[value] : undefined
  if (older !== undefined)
    toml.warning(
      path,
      `${field} = ${JSON.stringify(value)} is an older spelling; write ${JSON.stringify(older)}`,
    )
  const idle = typeof value === 'string' ? meta.idleValues?.[value] : undefined
  if (idle !== undefined) toml.warning(path, `${field} = ${JSON.stringify(value)} is kept: ${idle}`)
  if (meta.tenon === 'acts') return
  if (meta.tenon === 'warned') toml.warning(path, `${field} is set aside: ${meta.note ?? 'nothing reads it'}`)
  if (!keys.some((_, i) => seen.has(keys.slice(0, i + 1).join('.'))))
    toml.idle(kind.split('-')[0]!, [...path], field, meta.tenon)
  seen.add(field)
}

/** What of a value nothing acts on, in its own shape; undefined when there is nothing of that kind. */
export function idlePart(schema: z.core.$ZodType, value: Json): Json | undefined {
  const { meta, below, shape } = nodeOf(schema, value)
  if (meta && meta.tenon !== 'acts') return value
  if (Array.isArray(value)) {
    const element = below('0')
    const kept = value.map((child) => (element ? idlePart(element, child) : undefined))
    return kept.some((child) => child !== undefined) ? kept.map((child) => child ?? {}) : undefined
  }
  if (typeof value !== 'object' || value === null || !shape) return undefined
  const kept: [string, Json][] = []
  for (const [key, child] of Object.entries(value)) {
    const part = shape[key] && idlePart(shape[key], child)
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
    at = nodeOf(at, inside).below(String(key)) ?? at
    inside = valueAt(inside, [key])
  }
  return Object.keys(nodeOf(at, inside).shape ?? {})
}

interface Def {
  type: string
  innerType?: z.core.$ZodType
  options?: readonly z.core.$ZodType[]
  element?: z.core.$ZodType
  valueType?: z.core.$ZodType
}

/** A schema as it is walked: the nearest description, and what lies below a key. */
interface Node {
  meta: FieldMeta | undefined
  shape: Readonly<Record<string, z.core.$ZodType>> | undefined
  below: (key: string) => z.core.$ZodType | undefined
}

/** Schemas do not change, and looking into them costs more than walking the values. */
const nodes = new WeakMap<z.core.$ZodType, Node>()

/** Looks under `optional` and the like, and into that option of a union that fits the value. */
function nodeOf(schema: z.core.$ZodType, value: Json | undefined): Node {
  const known = nodes.get(schema)
  if (known) return known
  let inner = schema
  let meta = metaOf(inner)
  let isUnion = false
  for (;;) {
    const def = inner._zod.def as unknown as Def
    if (def.options) isUnion = true
    const next = def.innerType ?? (def.options && fitting(def.options, value))
    if (!next) break
    inner = next
    meta ??= metaOf(inner)
  }
  const shape = 'shape' in inner ? (inner as z.ZodObject).shape : undefined
  const { element, valueType } = inner._zod.def as unknown as Def
  const each = element ?? valueType
  const below = (key: string) => (shape ? (Object.hasOwn(shape, key) ? shape[key] : undefined) : each)
  const node = { meta, shape, below }
  if (!isUnion) nodes.set(schema, node)
  return node
}

function fitting(options: readonly z.core.$ZodType[], value: Json | undefined): z.core.$ZodType {
  const wanted = Array.isArray(value) ? ['array'] : typeof value === 'object' ? ['object', 'record'] : []
  return options.find((option) => wanted.includes((option._zod.def as unknown as Def).type)) ?? options[0]!
}

function metaOf(schema: z.core.$ZodType): FieldMeta | undefined {
  const found = (schema as z.ZodType).meta() as FieldMeta | undefined
  return found?.tenon === undefined ? undefined : found
}
