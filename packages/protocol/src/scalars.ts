import { ID_PATTERN, type Json } from '@tenon/core'
import { z } from 'zod'

export const id = z.string().regex(ID_PATTERN, 'must be an id such as job_01…')

/** Names appear in file paths, repository names and host names, so their alphabet is the one that is safe in all three. */
export const name = z
  .string()
  .regex(
    /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
    'must be 1 to 63 of a-z, 0-9 and -, starting and ending with a letter or digit',
  )

export const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, 'must be sha256: and 64 hex digits')

export const repository = z
  .string()
  .max(255)
  .regex(/^[a-z0-9]+([._-][a-z0-9]+)*(\/[a-z0-9]+([._-][a-z0-9]+)*)*$/, 'must be a repository name')

export const timestamp = z.iso.datetime()

export const base64 = z.base64()

/** Text from outside: bounded, and without the zero character that Postgres cannot hold. */
export function text(max: number) {
  return z
    .string()
    .transform((value) => value.replaceAll('\0', '\uFFFD'))
    .pipe(z.string().max(max))
}

/** Text from outside that is cut, not refused, when it is too long: a job's words must never block its result. */
export function clippedText(max: number) {
  return z.string().transform((value) => clip(value.replaceAll('\0', '\uFFFD'), max))
}

function clip(value: string, max: number): string {
  return value.length <= max ? value : `${value.slice(0, max - 1)}…`
}

export const json: z.ZodType<Json> = z.json() as z.ZodType<Json>
export const jsonObject = z.record(z.string(), json)
