import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { asRefusal, RegistryRefusal, sendJson, sendRefusal } from './registry/respond.ts'
import { isRepositoryGrant } from './registry/token.ts'
import type { Grant, RepositoryGrant, TokenIssuer } from './registry/token.ts'

const MAX_BODY_BYTES = 65_536
const MAX_TTL_SECONDS = 86_400
const MAX_REPOSITORIES = 200
const MAX_SUBJECT_CHARS = 200

const METHODS = new Map([
  ['/token', 'POST'],
  ['/healthz', 'GET'],
])

export interface TokenEndpointOptions {
  /** Whoever holds it may make any token: the install's agent, and nobody else. */
  key: Uint8Array
  issuer: TokenIssuer
  now: () => number
}

/**
 * What an install registry answers besides the distribution API: `POST /token`, where the agent trades its key
 * for a bearer that it hands to one job, and `GET /healthz`. Everything outside `/v2/` ends here.
 */
export const createTokenEndpoint =
  (options: TokenEndpointOptions) =>
  (req: IncomingMessage, res: ServerResponse): boolean => {
    const path = (req.url ?? '').split('?', 1)[0] ?? ''
    if (path === '/v2' || path.startsWith('/v2/')) return false
    answer(options, path, req, res).catch((error: unknown) => {
      if (res.headersSent) res.destroy()
      else sendRefusal(res, asRefusal(error) ?? new RegistryRefusal(500, 'UNKNOWN', 'The registry failed'))
    })
    return true
  }

const answer = async (
  options: TokenEndpointOptions,
  path: string,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> => {
  const allowed = METHODS.get(path)
  if (allowed === undefined) throw new RegistryRefusal(404, 'UNSUPPORTED', 'There is nothing at this address')
  if (req.method !== allowed) {
    throw new RegistryRefusal(405, 'UNSUPPORTED', `Use ${allowed} here`, { Allow: allowed })
  }
  if (path === '/healthz') return sendJson(res, 200, { status: 'ok' })
  if (!isKey(req.headers.authorization, options.key)) {
    throw new RegistryRefusal(401, 'UNAUTHORIZED', "Send the registry's key as a bearer", {
      'WWW-Authenticate': 'Bearer',
    })
  }
  const { ttlSeconds, ...grant } = readRequest(await readBody(req))
  const now = options.now()
  const bearer = options.issuer.issue(grant, ttlSeconds, now)
  const expiresAt = new Date((Math.floor(now / 1000) + ttlSeconds) * 1000).toISOString()
  sendJson(res, 200, { bearer, expiresAt }, { 'Cache-Control': 'no-store' })
}

/** Both sides hashed first, so that neither content nor length of the key shows in the time it takes. */
const isKey = (authorization: string | undefined, key: Uint8Array): boolean => {
  const [, given = ''] = /^Bearer +(\S+)$/i.exec(authorization ?? '') ?? []
  return timingSafeEqual(hash(given), hash(Buffer.from(key).toString('base64url')))
}

const hash = (text: string) => createHash('sha256').update(text).digest()

const readBody = async (req: IncomingMessage): Promise<unknown> => {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of req as AsyncIterable<Buffer>) {
    size += chunk.byteLength
    if (size > MAX_BODY_BYTES) {
      const headers = { Connection: 'close' }
      throw new RegistryRefusal(413, 'SIZE_INVALID', `Send at most ${MAX_BODY_BYTES} bytes`, headers)
    }
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch {
    throw bad('the body is not JSON')
  }
}

const readRequest = (body: unknown): Grant & { ttlSeconds: number } => {
  if (typeof body !== 'object' || body === null) throw bad('the body is not an object')
  const { subject, ttlSeconds, repositories } = body as Record<string, unknown>
  if (typeof subject !== 'string' || subject === '' || subject.length > MAX_SUBJECT_CHARS) {
    throw bad(`subject must be 1 to ${MAX_SUBJECT_CHARS} characters`)
  }
  if (!Number.isInteger(ttlSeconds) || Number(ttlSeconds) < 1 || Number(ttlSeconds) > MAX_TTL_SECONDS) {
    throw bad(`ttlSeconds must be a whole number from 1 to ${MAX_TTL_SECONDS}`)
  }
  if (!Array.isArray(repositories) || repositories.length > MAX_REPOSITORIES) {
    throw bad(`repositories must be a list of at most ${MAX_REPOSITORIES}`)
  }
  return { subject, ttlSeconds: Number(ttlSeconds), repositories: repositories.map(readGrant) }
}

const readGrant = (value: unknown): RepositoryGrant => {
  const isObject = typeof value === 'object' && value !== null
  if (!isObject || !isRepositoryGrant(value as RepositoryGrant)) {
    throw bad('each repository has a name, its actions (pull, push) and perhaps digests or roots')
  }
  const { name, actions, digests, roots } = value as RepositoryGrant
  return {
    name,
    actions,
    ...(digests === undefined ? {} : { digests }),
    ...(roots === undefined ? {} : { roots }),
  }
}

const bad = (why: string): RegistryRefusal =>
  new RegistryRefusal(400, 'UNSUPPORTED', `The request is refused: ${why}`)
