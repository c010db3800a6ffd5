import { createHmac, timingSafeEqual } from 'node:crypto'
import { OciError } from '../errors.ts'
import { isDigest, isRepository } from '../reference.ts'
import type { Digest } from '../reference.ts'
import type { AccessDecision, AccessRequest, Authorize } from './access.ts'
import type { Closures } from './closures.ts'

export interface RepositoryGrant {
  /** A repository, `*` for every one, or `apps/*` for every one below `apps/`. */
  name: string
  actions: ('pull' | 'push')[]
  /** When given, only these manifests and blobs may be pulled. */
  digests?: Digest[]
  /** When given, only what belongs to these artifacts may be pulled. */
  roots?: Digest[]
}

export interface Grant {
  subject: string
  repositories: RepositoryGrant[]
}

export type TokenCheck =
  | { ok: true; grant: Grant }
  | { ok: false; reason: 'malformed' | 'forged' }
  | { ok: false; reason: 'expired'; subject: string }

export interface TokenIssuer {
  /** `now` is in milliseconds, as from `Date.now()`. */
  issue(grant: Grant, ttlSeconds: number, now: number): string
  verify(token: string, now: number): TokenCheck
}

const ANY_REPOSITORY = '*'
const BELOW = '/*'
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
      const { grant, exp } = read
      return now / 1000 >= exp
        ? { ok: false, reason: 'expired', subject: grant.subject }
        : { ok: true, grant }
    },
  }
}

export interface TokenChecks {
  /** Without them nothing but a root itself is within a grant of roots. */
  closures?: Closures
  /** Whether whom the token was given to may still use it. */
  isLive?: (subject: string) => Promise<boolean>
}

export const authorizeWith =
  (issuer: TokenIssuer, clock: () => number, checks: TokenChecks = {}): Authorize =>
  async (request) => {
    if (request.bearer === undefined) return unauthorized('Credentials are required')
    const check = issuer.verify(request.bearer, clock())
    if (!check.ok && check.reason === 'expired') return expired(check.subject)
    if (!check.ok) return unauthorized('The token is not valid')
    const { grant } = check
    if (checks.isLive !== undefined && !(await checks.isLive(grant.subject))) return ended(grant.subject)
    return (await grants(grant, request, checks.closures)) ? { ok: true } : denied(request, grant.subject)
  }

/** Does the grant cover the request? Every valid token passes the base check. */
const grants = async (
  grant: Grant,
  request: Omit<AccessRequest, 'bearer'>,
  closures: Closures | undefined,
): Promise<boolean> => {
  const { repository, action, digest } = request
  if (repository === undefined) return action === 'pull'
  if (action === 'delete') return false
  for (const granted of grant.repositories) {
    if (!covers(granted.name, repository) || !granted.actions.includes(action)) continue
    const { digests, roots } = granted
    if (action === 'push' || (digests === undefined && roots === undefined)) return true
    if (digest === undefined) continue
    if (digests?.includes(digest) || roots?.includes(digest)) return true
    if (roots !== undefined && (await closures?.reach(repository, roots, digest))) return true
  }
  return false
}

const covers = (name: string, repository: string): boolean =>
  name === ANY_REPOSITORY ||
  name === repository ||
  (name.endsWith(BELOW) && repository.startsWith(name.slice(0, -1)))

const unauthorized = (message: string): AccessDecision => ({ ok: false, status: 401, message })

const expired = (subject: string): AccessDecision => ({
  ok: false,
  status: 401,
  message: 'The token has expired',
  subject,
  reason: 'expired',
})

const ended = (subject: string): AccessDecision => ({
  ok: false,
  status: 401,
  message: 'Whom the token was given to may no longer use it',
  subject,
  reason: 'ended',
})

const denied = ({ action, repository }: AccessRequest, subject: string): AccessDecision => ({
  ok: false,
  status: 403,
  message: `The token does not allow to ${action} this content of ${repository ?? 'the registry'}`,
  subject,
  reason: 'not_granted',
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
  (value.name === ANY_REPOSITORY || isRepository(value.name.replace(/\/\*$/, ''))) &&
  Array.isArray(value.actions) &&
  value.actions.every((action) => action === 'pull' || action === 'push') &&
  isDigestList(value.digests) &&
  isDigestList(value.roots)

const isDigestList = (value: Digest[] | undefined): boolean =>
  value === undefined || (Array.isArray(value) && value.every((digest) => isDigest(digest)))
