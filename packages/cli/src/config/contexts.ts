import { z } from 'zod'
import { usageError } from '../errors.ts'
import type { Io } from '../io.ts'
import { configFile } from './paths.ts'
import { readJson, writePrivateJson } from './private-file.ts'

const context = z.object({ url: z.string(), token: z.string() })
const config = z.object({
  version: z.literal(1),
  current: z.string().nullable(),
  contexts: z.record(z.string(), context),
})
export type Config = z.infer<typeof config>

export async function readConfig(io: Pick<Io, 'env' | 'host'>): Promise<Config> {
  const stored = await readJson(configFile(io), config)
  return stored ?? { version: 1, current: null, contexts: {} }
}

export function writeConfig(io: Pick<Io, 'env' | 'host'>, value: Config): Promise<void> {
  return writePrivateJson(configFile(io), value)
}

export function checkContextName(name: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(name)) return name
  throw usageError(`${JSON.stringify(name)} cannot name a context: use letters, digits, ".", "_" and "-"`)
}

/** Scheme, host and port, nothing else: a token must go exactly where the user said. */
export function checkUrl(given: string): string {
  const expected = 'the address of the server, such as https://tenon.example.com'
  const url = URL.canParse(given) ? new URL(given) : undefined
  if (!url || !['http:', 'https:'].includes(url.protocol))
    throw usageError(`${JSON.stringify(given)} is no address: expected ${expected}`)
  if (url.username || url.password)
    throw usageError(`an address carries no credentials: expected ${expected}`)
  if (url.pathname !== '/' || url.search || url.hash)
    throw usageError(`${given} has a path: expected only ${expected}`)
  return url.origin
}

export function isLoopback(url: string): boolean {
  const host = new URL(url).hostname
  return host === 'localhost' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host)
}

/** A bearer token is one word of visible characters; anything else is a file or a line taken by mistake. */
export function checkToken(given: string, where: string): string {
  const token = given.trim()
  if (token === '') throw usageError(`${where} holds no token`)
  if (!/^[\u0021-\u007E]{1,512}$/.test(token)) throw usageError(`${where} does not hold a token`)
  return token
}
