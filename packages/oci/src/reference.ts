import { OciError } from './errors.ts'

export type Digest = `sha256:${string}`

/** A repository or artifact as people write it: `host[:port]/repository[:tag][@digest]`. */
export interface ImageReference {
  registry: string
  repository: string
  tag?: string
  digest?: Digest
}

const MAX_REPOSITORY = 255
const component = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*'
const repositoryPattern = new RegExp(`^${component}(?:/${component})*$`)
const tagPattern = /^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$/
const digestPattern = /^sha256:[a-f0-9]{64}$/
const registryPattern =
  /^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,252}[a-zA-Z0-9])?|\[[0-9a-fA-F:]{2,39}\])(?::[0-9]{1,5})?$/

export const isRepository = (value: string): boolean =>
  value.length <= MAX_REPOSITORY && repositoryPattern.test(value)

export const isTag = (value: string): boolean => tagPattern.test(value)

export const isDigest = (value: string): value is Digest => digestPattern.test(value)

export const parseRepository = (value: string): string => {
  if (isRepository(value)) return value
  throw new OciError(
    'NAME_INVALID',
    `${quote(value)} is no repository name; use at most 255 of a-z, 0-9 and single separators . _ - /`,
  )
}

export const parseTag = (value: string): string => {
  if (isTag(value)) return value
  throw new OciError('NAME_INVALID', `${quote(value)} is no tag; use at most 128 of A-Z, a-z, 0-9, _ . -`)
}

export const parseDigest = (value: string): Digest => {
  if (isDigest(value)) return value
  throw new OciError(
    'DIGEST_INVALID',
    `${quote(value)} is no digest; use sha256: and 64 lower-case hexadecimal digits`,
  )
}

/** A manifest is asked for by tag or by digest; only a digest holds a colon. */
export const parseTagOrDigest = (value: string): { tag: string } | { digest: Digest } =>
  value.includes(':') ? { digest: parseDigest(value) } : { tag: parseTag(value) }

export const digestHex = (digest: Digest): string => digest.slice('sha256:'.length)

export const parseImageReference = (value: string): ImageReference => {
  const slash = value.indexOf('/')
  const registry = slash < 0 ? '' : value.slice(0, slash)
  if (!registryPattern.test(registry)) {
    throw new OciError('NAME_INVALID', `${quote(value)} names no registry; write host/repository:tag`)
  }
  const [named = '', digest, ...rest] = value.slice(slash + 1).split('@')
  if (rest.length > 0) throw new OciError('NAME_INVALID', `${quote(value)} holds more than one digest`)
  const colon = named.indexOf(':')
  return {
    registry,
    repository: parseRepository(colon < 0 ? named : named.slice(0, colon)),
    ...(colon < 0 ? {} : { tag: parseTag(named.slice(colon + 1)) }),
    ...(digest === undefined ? {} : { digest: parseDigest(digest) }),
  }
}

export const formatImageReference = (reference: ImageReference): string => {
  const tag = reference.tag === undefined ? '' : `:${reference.tag}`
  const digest = reference.digest === undefined ? '' : `@${reference.digest}`
  return `${reference.registry}/${reference.repository}${tag}${digest}`
}

const quote = (value: string): string => JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}…` : value)
