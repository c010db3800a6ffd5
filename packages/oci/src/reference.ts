import { OciError } from './errors.ts'

/** How many hexadecimal digits a digest has, by its algorithm. */
const digestLengths = { sha256: 64, sha512: 128 } as const

export type DigestAlgorithm = keyof typeof digestLengths

export type Digest = `${DigestAlgorithm}:${string}`

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
const registryPattern =
  /^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,252}[a-zA-Z0-9])?|\[[0-9a-fA-F:]{2,39}\])(?::[0-9]{1,5})?$/

export const isRepository = (value: string): boolean =>
  value.length <= MAX_REPOSITORY && repositoryPattern.test(value)

export const isTag = (value: string): boolean => tagPattern.test(value)

export const digestAlgorithms = Object.keys(digestLengths) as DigestAlgorithm[]

export const isDigestAlgorithm = (value: string): value is DigestAlgorithm =>
  Object.hasOwn(digestLengths, value)

export const isDigest = (value: string): value is Digest => {
  const [, algorithm = '', hex = ''] = /^([a-z0-9]+):([a-f0-9]+)$/.exec(value) ?? []
  return isDigestAlgorithm(algorithm) && hex.length === digestLengths[algorithm]
}

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
    `${quote(value)} is no digest known here; use sha256: and 64, or sha512: and 128, lower-case hexadecimal digits`,
  )
}

export const parseDigestAlgorithm = (value: string): DigestAlgorithm => {
  if (isDigestAlgorithm(value)) return value
  throw new OciError(
    'DIGEST_INVALID',
    `${quote(value)} is no digest algorithm known here; use sha256 or sha512`,
  )
}

/** A manifest is asked for by tag or by digest; only a digest holds a colon. */
export const parseTagOrDigest = (value: string): { tag: string } | { digest: Digest } =>
  value.includes(':') ? { digest: parseDigest(value) } : { tag: parseTag(value) }

export const digestAlgorithm = (digest: Digest): DigestAlgorithm =>
  digest.startsWith('sha512:') ? 'sha512' : 'sha256'

export const digestHex = (digest: Digest): string => digest.slice(digest.indexOf(':') + 1)

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
