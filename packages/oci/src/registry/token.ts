import { createHmac, timingSafeEqual } from 'node:crypto'
import { OciError } from '../errors.ts'
import { isDigest, isRepository } from '../reference.ts'
import type { Digest } from '../reference.ts'
import type { AccessDecision, AccessRequest, Authorize } from './access.ts'

export interface RepositoryGrant {
  /** A repository, or `*` for every one. */
  name: string
  actions: ('pull' | 'push')[]
  /** When given, only these manifests and blobs may be pulled. */
  digests?: Digest[]
}

export interface Grant {
  subject: string
  repositories: RepositoryGrant[]
}

export type TokenCheck =
  | { ok: true; grant: Grant }
  | { ok: false; reason: 'malformed' | 'forged' | 'expired' }

export interface TokenIssuer {
  /** `now` is in milliseconds, as from `Date.now()`. */
  issue(grant: Grant, ttlSeconds: number, now: number): string
  verify(token: string, now: number): TokenCheck
}

const ANY_REPOSITORY = '*'
const MIN_SECRET_BYTES = 32
const MAX_TOKEN_CHARS = 12_000

/** Tokens read `v1.<base64url of the JSON grant and its expiry>.<base64url HMAC-SHA256>`. */
export const createTokenIssuer = (secret: Uint8Array): TokenIssuer => {
  if (secret.byteLength < MIN_SECRET_BYTES) {
    throw new OciError('TOKEN_INVALID', `A token secret needs at least ${MIN_SECRET_BYTES} random bytes`)
  }
  const macOf = (text: string): Buffer => createHmac('sha256', secret).update(text).digest()
  return {
    issue: (grant, ttlSeconds, now) => {
      const payload = { ...grant, exp: Math.floor(now / 1000) + ttlSeconds }
      const signed = `v1.${Buffer.from(JSON.stringify(payload)).toString('base64url')}`
      const token = `${signed}.${macOf(signed).toString('base64url')}`
      if (token.length > MAX_TOKEN_CHARS) {
        throw new OciError(
          'TOKEN_INVALID',
          'The grant does not fit into one token; grant fewer digests at once',
        )
      }
      return token
    },
    verify: (token, now) => {
      const [version, payload, mac, ...rest] = token.length > MAX_TOKEN_CHARS ? [] : token.split('.')
      if (version !== 'v1' || payload === undefined || mac === undefined || rest.length > 0) {
        return { ok: false, reason: 'malformed' }
      }
      const given = Buffer.from(mac, 'base64url')
      const expected = macOf(`v1.${payload}`)
      if (given.byteLength !== expected.byteLength || !timingSafeEqual(given, expected)) {
        return { ok: false, reason: 'forged' }
      }
      const read = readPayload(payload)
      if (read === undefined) return { ok: false, reason: 'malformed' }
      return now / 1000 >= read.exp ? { ok: false, reason: 'expired' } : { ok: true, grant: read.grant }
    },
  }
}

export const authorizeWith =
  (issuer: TokenIssuer, clock: () => number): Authorize =>
  async (request) => {
    if (request.bearer === undefined) return unauthorized('Credentials are required')
    const check = issuer.verify(request.bearer, clock())
    if (!check.ok)
      return unauthorized(check.reason === 'expired' ? 'The token has expired' : 'The token is not valid')
    return grants(check.grant, request) ? { ok: true } : denied(request)
  }

/** Pure: does the grant cover the request? Every valid token passes the base check. */
const grants = (grant: Grant, request: Omit<AccessRequest, 'bearer'>): boolean => {
  const { repository, action, digest } = request
  if (repository === undefined) return action === 'pull'
  if (action === 'delete') return false
  return grant.repositories.some((granted) => {
    const isNamed = granted.name === ANY_REPOSITORY || granted.name === repository
    if (!isNamed || !granted.actions.includes(action)) return false
    if (action === 'push' || granted.digests === undefined) return true
    return digest !== undefined && granted.digests.includes(digest)
  })
}

const unauthorized = (message: string): AccessDecision => ({ ok: false, status: 401, message })

const denied = ({ action, repository }: AccessRequest): AccessDecision => ({
  ok: false,
  status: 403,
  message: `The token does not allow to ${action} this content of ${repository ?? 'the registry'}`,
})

/** Signed by us, yet read with care: a secret may be shared with an older version. */
const readPayload = (payload: string): { grant: Grant; exp: number } | undefined => {
  try {
    const value = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as Partial<
      Grant & { exp: number }
    >
    const { subject, repositories, exp } = value
    if (typeof subject !== 'string' || typeof exp !== 'number' || !Array.isArray(repositories))
      return undefined
    return repositories.every(isRepositoryGrant) ? { grant: { subject, repositories }, exp } : undefined
  } catch {
    return undefined
  }
}

export const isRepositoryGrant = (value: RepositoryGrant): boolean =>
  typeof value.name === 'string' &&
  (value.name === ANY_REPOSITORY || isRepository(value.name)) &&
  Array.isArray(value.actions) &&
  value.actions.every((action) => action === 'pull' || action === 'push') &&
  (value.digests === undefined ||
    (Array.isArray(value.digests) && value.digests.every((digest) => isDigest(digest))))
