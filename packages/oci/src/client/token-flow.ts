import type { Dispatcher } from 'undici'
import type { ProxyRoutes } from './proxy-routes.ts'
import { OciError } from '../errors.ts'
import { parseChallenges } from './challenge.ts'
import type { Challenge } from './challenge.ts'
import { basicHeader } from './credentials.ts'
import type { Credential } from './credentials.ts'
import { sendHttp } from './http.ts'
import { parseRetryAfter, TransientFailure } from './retry.ts'

/** What a request needs access to; `also` is a second repository to read, as mounting does. */
export interface Scope {
  repository: string | undefined
  actions: 'pull' | 'pull,push'
  also?: string | undefined
}

/** Finds the `Authorization` header of a request, by whichever way the registry asks for. */
export interface TokenFlow {
  /** From what is known without asking anybody. */
  known(scope: Scope, credential: Credential | undefined): string | undefined
  /** After a refusal; `undefined` when the registry offers no way that fits. */
  answer(
    challenge: string | undefined,
    scope: Scope,
    credential: Credential | undefined,
    signal: AbortSignal | undefined,
  ): Promise<string | undefined>
}

export interface TokenFlowOptions {
  base: URL
  dispatcher: Dispatcher | undefined
  routes?: ProxyRoutes | undefined
  now: () => number
}

export const createTokenFlow = (options: TokenFlowOptions): TokenFlow => {
  const tokens = new Map<string, { header: string; until: number }>()
  let isBasic = false
  return {
    known: (scope, credential) => {
      if (credential !== undefined && 'bearer' in credential) return `Bearer ${credential.bearer}`
      const held = tokens.get(keyOf(scope))
      if (held !== undefined && options.now() < held.until) return held.header
      return isBasic && credential !== undefined ? basicHeader(credential) : undefined
    },
    answer: async (header, scope, credential, signal) => {
      if (credential !== undefined && 'bearer' in credential) return `Bearer ${credential.bearer}`
      const challenges = parseChallenges(header)
      const bearer = challenges.find(({ scheme }) => scheme === 'bearer')
      if (bearer !== undefined) {
        const { token, lifeMs } = await fetchToken(options, bearer, scope, credential, signal)
        if (tokens.size >= MAX_TOKENS) tokens.clear()
        tokens.set(keyOf(scope), { header: `Bearer ${token}`, until: options.now() + lifeMs * USED_LIFE })
        return `Bearer ${token}`
      }
      isBasic = challenges.some(({ scheme }) => scheme === 'basic')
      return isBasic && credential !== undefined ? basicHeader(credential) : undefined
    },
  }
}

/** Trades a credential that is good once for a bearer, at the registry's token endpoint. */
export const redeemToken = async (options: {
  url: string
  credential: { username: string; password: string }
  dispatcher?: Dispatcher
  routes?: ProxyRoutes | undefined
  signal?: AbortSignal
  now?: () => number
}): Promise<{ bearer: string; lifeMs: number }> => {
  const { credential, signal, dispatcher, routes, now = Date.now } = options
  const url = new URL(options.url)
  try {
    const answer = await send({ base: url, dispatcher, routes, now }, url, credential, signal)
    const { token, lifeMs } = readToken(answer, url)
    return { bearer: token, lifeMs }
  } catch (error) {
    // What it was traded for may be lost on the way, so it is never sent again.
    if (!(error instanceof TransientFailure)) throw error
    throw new OciError('UNAVAILABLE', error.message, { cause: error })
  }
}

/** Pure: what a request reads or writes, told from its method and path. */
export const scopeOf = (method: string, path: string, also?: string): Scope => {
  const [, repository] = /^\/v2\/(.+)\/(?:blobs\/uploads|blobs|manifests|tags|referrers)\//.exec(path) ?? []
  const isRead = (method === 'GET' || method === 'HEAD') && !path.includes('/blobs/uploads/')
  return { repository, actions: isRead ? 'pull' : 'pull,push', ...(also === undefined ? {} : { also }) }
}

const MAX_TOKENS = 1000
const MAX_ANSWER_BYTES = 64 * 1024
const DEFAULT_LIFE_SECONDS = 60
const USED_LIFE = 0.8
const SILENCE_MS = 30_000

const keyOf = ({ repository = '', actions, also = '' }: Scope): string => `${repository} ${actions} ${also}`

const fetchToken = async (
  options: TokenFlowOptions,
  { parameters }: Challenge,
  scope: Scope,
  credential: { username: string; password: string } | undefined,
  signal: AbortSignal | undefined,
): Promise<{ token: string; lifeMs: number }> => {
  const url = realmOf(options.base, parameters['realm'])
  if (parameters['service'] !== undefined) url.searchParams.set('service', parameters['service'])
  for (const wanted of scopesOf(scope, parameters['scope'])) url.searchParams.append('scope', wanted)
  return readToken(await send(options, url, credential, signal), url)
}

const readToken = (answer: object, url: URL): { token: string; lifeMs: number } => {
  const { token, access_token, expires_in } = answer as Record<string, unknown>
  const found = typeof token === 'string' && token !== '' ? token : access_token
  if (typeof found !== 'string' || !/^[\x21-\x7e]+$/.test(found)) {
    throw new OciError('RESPONSE_INVALID', `${url.host} answered without a token`)
  }
  const seconds = typeof expires_in === 'number' && expires_in > 0 ? expires_in : DEFAULT_LIFE_SECONDS
  return { token: found, lifeMs: seconds * 1000 }
}

/** Credentials go where the registry sends them, but never from an encrypted connection to an open one. */
const realmOf = (base: URL, realm: string | undefined): URL => {
  const url = realm !== undefined && URL.canParse(realm, base.href) ? new URL(realm, base) : undefined
  if (url === undefined) {
    throw new OciError('RESPONSE_INVALID', `The registry ${base.host} does not say where to get a token`)
  }
  const isOpenAnyway = base.protocol === 'http:' && url.protocol === 'http:'
  const isSafe = url.protocol === 'https:' || (isOpenAnyway && url.hostname === base.hostname)
  if (isSafe && url.username === '') return url
  throw new OciError(
    'REDIRECT_REFUSED',
    `The registry ${base.host} asks for credentials at ${url.protocol}//${url.host}; only https is trusted`,
  )
}

/** What the registry names, and what the request needs beyond it. */
const scopesOf = (scope: Scope, named: string | undefined): string[] => {
  const own = scope.repository === undefined ? [] : [`repository:${scope.repository}:${scope.actions}`]
  const first = named === undefined || named === '' ? own : named.split(' ')
  return scope.also === undefined ? first : [...first, `repository:${scope.also}:pull`]
}

const send = async (
  options: TokenFlowOptions,
  url: URL,
  credential: { username: string; password: string } | undefined,
  signal: AbortSignal | undefined,
): Promise<object> => {
  const answer = await sendHttp(url, {
    method: 'GET',
    headers: credential === undefined ? {} : { authorization: basicHeader(credential) },
    signal,
    silenceMs: SILENCE_MS,
    dispatcher: options.dispatcher,
    routes: options.routes,
  }).catch((cause: unknown) => {
    throw new TransientFailure(`${url.host}, which gives tokens, cannot be reached`, { cause })
  })
  const { statusCode: status, headers } = answer
  if (status === 429 || status >= 500) {
    answer.body.destroy()
    const wish = headers['retry-after']
    const retryAfterMs = parseRetryAfter(Array.isArray(wish) ? wish[0] : wish, options.now())
    throw new TransientFailure(`${url.host} answered ${status} instead of a token`, { retryAfterMs })
  }
  if (status !== 200) {
    answer.body.destroy()
    throw new OciError(
      'UNAUTHORIZED',
      `${url.host} answered ${status} instead of a token; check the credentials`,
    )
  }
  return readJson(answer.body, url)
}

const readJson = async (body: AsyncIterable<Uint8Array>, url: URL): Promise<object> => {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > MAX_ANSWER_BYTES) throw new OciError('TOO_LARGE', `${url.host} answered with too long a token`)
    chunks.push(chunk)
  }
  try {
    const value: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'))
    if (typeof value === 'object' && value !== null) return value
  } catch (cause) {
    throw new OciError('RESPONSE_INVALID', `${url.host} answered without a token`, { cause })
  }
  throw new OciError('RESPONSE_INVALID', `${url.host} answered without a token`)
}
