import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import { isOciError, OciError } from '../errors.ts'
import type { Credentials } from './credentials.ts'
import { sendHttp } from './http.ts'
import type { ProxyRoutes } from './proxy-routes.ts'
import { aborted, defaultRetry, parseRetryAfter, TransientFailure, withRetries } from './retry.ts'
import type { RetryPolicy } from './retry.ts'
import { createTokenFlow, scopeOf } from './token-flow.ts'

export interface RegistryClientOptions {
  url: string
  credentials: Credentials
  /** For instance undici's `ProxyAgent`; all requests go through it, those for tokens too. */
  dispatcher?: Dispatcher
  /** Proxies that variables name, where there is no dispatcher. */
  routes?: ProxyRoutes | undefined
  /** Where reads may be sent besides the registry itself; nowhere by default. No credential goes along. */
  followRedirect?: (url: URL) => boolean
  signal?: AbortSignal
  retry?: Partial<RetryPolicy>
  clock?: () => number
}

export interface WireRequest {
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  headers?: Record<string, string>
  body?: Uint8Array | Readable
  /** Statuses the caller handles; any other becomes an `OciError`. */
  expect: readonly number[]
  signal?: AbortSignal | undefined
  /** A second repository that must be readable. */
  alsoPull?: string
}

export interface WireAnswer {
  status: number
  header(name: string): string | undefined
  body: Readable
}

/** One registry, spoken to at one origin only: credentials and content never go anywhere else. */
export interface Transport {
  retry: RetryPolicy
  signal: AbortSignal | undefined
  /** Throws `TransientFailure` for what may pass by itself. */
  once(wire: WireRequest): Promise<WireAnswer>
  /** For requests that may be sent again as they are. */
  send(wire: WireRequest): Promise<WireAnswer>
  /** Path and query of an address the registry gave, refused when it leads elsewhere. */
  follow(location: string | undefined, from: string): string
}

export const createTransport = (options: RegistryClientOptions): Transport => {
  const base = new URL(options.url)
  const retry: RetryPolicy = { ...defaultRetry, ...options.retry }
  const now = options.clock ?? Date.now

  const flow = createTokenFlow({ base, dispatcher: options.dispatcher, routes: options.routes, now })

  const settled = async (wire: WireRequest): Promise<WireAnswer> => {
    const scope = scopeOf(wire.method, wire.path, wire.alsoPull)
    const sent = flow.known(scope, await options.credentials())
    const answer = await attempt(base, options, wire, sent)
    if (answer.status !== 401 || !isRepeatable(wire)) return answer
    const challenge = answer.header('www-authenticate')
    const signal = anySignal(options.signal, wire.signal)
    const renewed = await flow.answer(challenge, scope, await options.credentials(), signal)
    if (renewed === undefined || renewed === sent) return answer
    await discard(answer)
    return attempt(base, options, wire, renewed)
  }

  const once = async (wire: WireRequest): Promise<WireAnswer> => {
    let answer = await settled(wire)
    let path = wire.path
    for (let hops = 0; isRedirect(answer.status) && isRead(wire) && hops < MAX_HOPS; hops++) {
      await discard(answer)
      path = redirect(base, options.followRedirect, answer.header('location'), path)
      const isHere = new URL(path, base).origin === base.origin
      const hop = { ...wire, path }
      answer = isHere ? await settled(hop) : await attempt(base, options, hop, undefined)
    }
    if (wire.expect.includes(answer.status)) return answer
    throw await failureOf(answer, base.host, now())
  }

  const send = (wire: WireRequest): Promise<WireAnswer> =>
    withRetries(retry, anySignal(options.signal, wire.signal), () => once(wire))

  return {
    retry,
    signal: options.signal,
    once,
    send,
    follow: (location, from) => follow(base, location, from),
  }
}

const MAX_HOPS = 3
const MAX_ERROR_BYTES = 64 * 1024

function follow(base: URL, location: string | undefined, from: string): string {
  const target =
    location === undefined || !URL.canParse(location, new URL(from, base).href) ? undefined : location
  if (target === undefined)
    throw new OciError('RESPONSE_INVALID', 'The registry answered without a usable Location')
  const url = new URL(target, new URL(from, base))
  if (url.origin !== base.origin) {
    throw new OciError(
      'REDIRECT_REFUSED',
      `The registry ${base.host} points to ${url.host}; it must serve by itself`,
    )
  }
  return `${url.pathname}${url.search}`
}

function redirect(
  base: URL,
  mayFollow: RegistryClientOptions['followRedirect'],
  location: string | undefined,
  from: string,
): string {
  const url =
    location !== undefined && URL.canParse(location, base.href) ? new URL(location, base) : undefined
  const isElsewhere = url !== undefined && url.origin !== base.origin
  return isElsewhere && mayFollow?.(url) === true ? url.href : follow(base, location, from)
}

async function attempt(
  base: URL,
  options: RegistryClientOptions,
  wire: WireRequest,
  authorization: string | undefined,
): Promise<WireAnswer> {
  const signal = anySignal(options.signal, wire.signal)
  try {
    const answer = await sendHttp(new URL(wire.path, base), {
      method: wire.method,
      headers: { ...wire.headers, ...(authorization === undefined ? {} : { authorization }) },
      body: wire.body,
      signal,
      dispatcher: options.dispatcher,
      routes: options.routes,
    })
    return { status: answer.statusCode, header: headerReader(answer.headers), body: answer.body }
  } catch (cause) {
    if (signal?.aborted) throw aborted(signal)
    if (isOciError(cause)) throw cause
    throw new TransientFailure(`The registry ${base.host} cannot be reached`, { cause })
  }
}

/** Reads at most `limit` bytes; a longer answer is cut off and refused. */
export const readBounded = async (answer: WireAnswer, limit: number): Promise<Buffer> => {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of answer.body) {
      size += (chunk as Buffer).byteLength
      if (size > limit) throw new OciError('TOO_LARGE', `The registry answered with more than ${limit} bytes`)
      chunks.push(chunk as Buffer)
    }
  } catch (cause) {
    if (isOciError(cause)) throw cause
    throw new TransientFailure('The registry broke off its answer', { cause })
  }
  return Buffer.concat(chunks)
}

/** Reads a short rest, so that its connection serves again; a longer one is cut off. */
export const discard = async ({ body }: { body: Readable }): Promise<void> => {
  let size = 0
  // What went wrong with an answer that nobody wants to read does not matter.
  try {
    for await (const chunk of body) {
      size += (chunk as Buffer).byteLength
      if (size > MAX_ERROR_BYTES) return
    }
  } catch {
    body.destroy()
  }
}

export const anySignal = (...signals: (AbortSignal | undefined)[]): AbortSignal | undefined => {
  const given = signals.filter((signal) => signal !== undefined)
  return given.length < 2 ? given[0] : AbortSignal.any(given)
}

const isRead = (wire: WireRequest): boolean => wire.method === 'GET' || wire.method === 'HEAD'

const isRepeatable = (wire: WireRequest): boolean =>
  wire.body === undefined || wire.body instanceof Uint8Array

const isRedirect = (status: number): boolean => [301, 302, 303, 307, 308].includes(status)

const headerReader =
  (headers: Record<string, string | string[] | undefined>) =>
  (name: string): string | undefined => {
    const value = headers[name.toLowerCase()]
    return Array.isArray(value) ? value[0] : value
  }

const failureOf = async (answer: WireAnswer, host: string, now: number): Promise<Error> => {
  const { status } = answer
  const said = await explanation(answer)
  const message = `The registry ${host} answered ${status}${said}`
  if (status === 429 || (status >= 500 && status !== 501 && status !== 507)) {
    return new TransientFailure(message, { retryAfterMs: parseRetryAfter(answer.header('retry-after'), now) })
  }
  if (isRedirect(status))
    return new OciError('REDIRECT_REFUSED', `${message}: redirects of uploads are refused`)
  if (status === 401) return new OciError('UNAUTHORIZED', `${message}; check the credentials`)
  if (status === 403) return new OciError('DENIED', `${message}; ask for access to this content`)
  if (said.includes('MANIFEST_BLOB_UNKNOWN')) return new OciError('MANIFEST_BLOB_UNKNOWN', message)
  if (said.includes('DIGEST_INVALID')) return new OciError('DIGEST_MISMATCH', message)
  if (status === 404) return new OciError('NOT_FOUND', message)
  if (status === 413) return new OciError('TOO_LARGE', message)
  if (status === 416) return new OciError('RANGE_INVALID', message)
  if (status === 507) return new OciError('STORAGE_FULL', message)
  return new OciError('REFUSED', message)
}

/** What a registry says ends up in logs and terminals: only short printable text is kept. */
const explanation = async (answer: WireAnswer): Promise<string> => {
  try {
    const body = JSON.parse((await readBounded(answer, MAX_ERROR_BYTES)).toString('utf8')) as {
      errors?: { code?: unknown; message?: unknown }[]
    }
    const { code, message } = body.errors?.[0] ?? {}
    const text = [code, message].filter((part) => typeof part === 'string').join(': ')
    return ` ${text.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 300)}`
  } catch {
    return ''
  }
}
