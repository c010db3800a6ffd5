import { ID_PATTERN, ID_PREFIXES, type IdKind, type Json, type OpenValue } from '@tenon/core'
import { z } from 'zod'

export const id = z.string().regex(ID_PATTERN, 'must be an id: three letters, _ and 26 letters and digits')

/** An id where one kind is meant: its words and its example in the API's description are of that kind. */
export function idOf(kind: IdKind) {
  const prefix = ID_PREFIXES[kind]
  return z
    .string()
    .regex(ID_PATTERN, `must be an id such as ${prefix}_01…`)
    .meta({ examples: [`${prefix}_01m7rce9sjk6xe0swk35qgk9se`] })
}

/** Names appear in file paths, repository names and host names, so their alphabet is the one that is safe in all three. */
export const name = z
  .string()
  .regex(
    /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
    'must be 1 to 63 of a-z, 0-9 and -, starting and ending with a letter or digit',
  )

/** Of what an app consists of: components, inputs, secrets, actions, plugins. Configurations write these with underscores. */
export const partName = z
  .string()
  .max(63)
  .regex(
    /^[a-z0-9]+((_{1,2}|-+)[a-z0-9]+)*$/,
    'must be 1 to 63 of a-z, 0-9, - and _, starting and ending with a letter or digit',
  )

/** What has builds: a component by its name, an action as `action:NAME`. */
export const buildableName = z
  .string()
  .max(70)
  .regex(
    /^(action:)?[a-z0-9]+((_{1,2}|-+)[a-z0-9]+)*$/,
    'must be the name of a component, or action: and that of an action',
  )

export const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, 'must be sha256: and 64 hex digits')

/** Of what lies in a registry; what Tenon itself names has a `digest`. */
export const contentDigest = z
  .string()
  .regex(/^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$/, 'must be sha256: and 64, or sha512: and 128 hex digits')

export const repository = z
  .string()
  .max(255)
  .regex(
    /^[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*)*$/,
    'must be a repository name',
  )

export const timestamp = z.iso.datetime()

export const base64 = z.base64()

/** Text from outside: bounded, and clean. */
export function text(max: number) {
  return z.string().overwrite(clean).max(max)
}

/** Text from outside that is cut, not refused, when it is too long: a job's words must never block its result. */
export function clippedText(max: number) {
  return z.string().overwrite((value) => clean(clip(value, max)))
}

/** Postgres cannot hold the zero character, and half a surrogate pair has no canonical form. */
function clean(value: string): string {
  return value.replaceAll(/[\0\p{Surrogate}]/gu, '\uFFFD')
}

function clip(value: string, max: number): string {
  return value.length <= max ? value : `${value.slice(0, max - 1)}…`
}

export const MAX_JSON_DEPTH = 100

/** Any JSON, with clean strings. Its depth is bounded before anything walks it recursively. */
export const json = z
  .unknown()
  .refine((value) => value !== undefined && isJson(value, MAX_JSON_DEPTH), {
    abort: true,
    message: `must be JSON of at most ${MAX_JSON_DEPTH} levels`,
  })
  .overwrite((value) => cleanJson(value as Json)) as unknown as z.ZodType<Json, Json>

function isJson(value: unknown, depth: number): value is Json {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || depth === 0) return false
  return Object.values(value).every((child) => isJson(child, depth - 1))
}

function cleanJson(value: Json): Json {
  if (typeof value === 'string') return clean(value)
  if (Array.isArray(value)) return value.map(cleanJson)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [clean(key), cleanJson(child)]))
}

export const jsonObject = z.record(z.string().overwrite(clean), json)

/** Fields that are not known here are handed on, for a reader that knows more; they have no type. */
export function handingOn<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.looseObject(shape) as unknown as z.ZodObject<Shape, z.core.$strip>
}

/** A value of a list that later versions add to; see core's `knownOr`. Those that are known stand in the API's description. */
export function openValue<const Known extends string>(known: readonly Known[]) {
  return z
    .string()
    .regex(/^[a-z][a-z0-9_.-]{0,63}$/)
    .meta({ examples: [...known] }) as unknown as z.ZodType<OpenValue<Known>, OpenValue<Known>>
}
