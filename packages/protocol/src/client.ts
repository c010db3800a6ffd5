import type { z } from 'zod'
import { apiError } from './api/error.ts'
import { routes, type RouteName, type Routes } from './api/routes.ts'

type In<T> = T extends z.ZodType ? z.input<T> : never
type Empty = Record<string, never>
type Query = Record<string, string | number | boolean | undefined>
type Part<K extends string, T> = Empty extends T ? { [key in K]?: T } : { [key in K]: T }

export type CallInput<N extends RouteName> = (In<Routes[N]['params']> extends Empty
  ? object
  : { params: In<Routes[N]['params']> }) &
  (In<Routes[N]['query']> extends Empty ? object : Part<'query', In<Routes[N]['query']>>) &
  (Routes[N]['body'] extends null
    ? object
    : Routes[N]['body'] extends 'bytes'
      ? { body: Uint8Array | ReadableStream }
      : { body: In<Routes[N]['body']> })

export type CallOutput<N extends RouteName> = Routes[N]['response'] extends z.ZodType
  ? z.output<Routes[N]['response']>
  : Response

export interface Client {
  call<N extends RouteName>(
    name: N,
    input: CallInput<N>,
    options?: { signal?: AbortSignal },
  ): Promise<CallOutput<N>>
}

/** The one client of the API, for the CLI, the dashboard and tests. `token` never appears in a URL or an error. */
export function createClient(options: { url: string; token: string; fetch?: typeof fetch }): Client {
  const send = options.fetch ?? fetch
  return {
    async call(name, input, { signal } = {}) {
      const route = routes[name]
      const given = input as {
        params?: Record<string, string>
        query?: Query
        body?: unknown
      }
      const headers: Record<string, string> = {
        authorization: `Bearer ${options.token}`,
        accept: 'application/json',
      }
      const init: RequestInit & { duplex?: 'half' } = { method: route.method, headers }
      if (signal) init.signal = signal
      if (route.body === 'bytes') {
        headers['content-type'] = 'application/octet-stream'
        init.body = given.body as Uint8Array<ArrayBuffer>
        init.duplex = 'half'
      } else if (route.body !== null) {
        headers['content-type'] = 'application/json'
        init.body = JSON.stringify(given.body ?? {})
      }
      const response = await reach(send, options.url, addressOf(options.url, route.path, given), init)
      if (!response.ok) throw await readError(response)
      if (route.response === 'stream') return response as never
      return (await readAnswer(response, route.response)) as never
    },
  }
}

/** `code` is one of API_ERRORS, or `unreachable` / `bad_answer` when no server of ours answered. */
export class ApiError extends Error {
  readonly code: string
  readonly status: number
  readonly remedy: string | undefined
  readonly requestId: string | undefined
  readonly problems: { path: string; message: string }[]

  constructor(fields: {
    code: string
    message: string
    status: number
    remedy?: string | undefined
    requestId?: string | undefined
    problems?: { path: string; message: string }[] | undefined
    cause?: unknown
  }) {
    super(fields.message, { cause: fields.cause })
    this.name = 'ApiError'
    this.code = fields.code
    this.status = fields.status
    this.remedy = fields.remedy
    this.requestId = fields.requestId
    this.problems = fields.problems ?? []
  }
}

async function reach(send: typeof fetch, base: string, address: URL, init: RequestInit): Promise<Response> {
  try {
    return await send(address, init)
  } catch (cause) {
    if (init.signal?.aborted) throw cause
    throw new ApiError({ code: 'unreachable', status: 0, ...whyUnreachable(base, cause), cause })
  }
}

/** Codes of what comes back when one side speaks TLS and the other one does not. */
const NO_TLS = ['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG', 'EPROTO']
const NO_HTTP = /^HPE_\w+$/
/** A server that was just stopped does that, and so does one that speaks TLS and hears plain HTTP. */
const CUT = ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']
const BAD_CERTIFICATE = /CERT|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER/

function whyUnreachable(base: string, cause: unknown): { message: string; remedy: string } {
  const code = codeOf(cause)
  if (base.startsWith('https:') && NO_TLS.includes(code))
    return {
      message: `what answers at ${base} does not speak HTTPS`,
      remedy: `If it speaks HTTP, write ${base.replace(/^https:/, 'http:')}.`,
    }
  const https = base.replace(/^http:/, 'https:')
  if (base.startsWith('http:') && NO_HTTP.test(code))
    return {
      message: `what answers at ${base} does not speak HTTP`,
      remedy: `If it speaks HTTPS, write ${https}.`,
    }
  if (CUT.includes(code)) {
    const mixUp = base === https ? '' : `; if it speaks HTTPS, write ${https}`
    return {
      message: `${base} closed the connection without an answer`,
      remedy: `Check that the server runs, and try again${mixUp}.`,
    }
  }
  if (BAD_CERTIFICATE.test(code))
    return {
      message: `the certificate of ${base} is not trusted (${code})`,
      remedy:
        'Name the authority that signed it in NODE_EXTRA_CA_CERTS, and check that the address is the one it is for.',
    }
  return { message: `no server answers at ${base}`, remedy: 'Check the address, and that the server runs.' }
}

function codeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error
  return cause instanceof Error && 'code' in cause ? String(cause.code) : ''
}

function addressOf(
  base: string,
  path: string,
  given: { params?: Record<string, string>; query?: Query },
): URL {
  const filled = path.replace(/:(\w+)/g, (_, key: string) => segment(key, given.params?.[key] ?? ''))
  const url = new URL(filled, base)
  for (const [key, value] of Object.entries(given.query ?? {})) {
    if (value !== undefined) url.searchParams.set(key, String(value))
  }
  return url
}

/** A URL parser drops `.` and `..` even when they are escaped, which would ask for another route. */
function segment(key: string, value: string): string {
  if (value !== '' && value !== '.' && value !== '..') return encodeURIComponent(value)
  throw new ApiError({
    code: 'bad_request',
    status: 0,
    message: `"${value}" cannot be the ${key} of anything`,
  })
}

async function readAnswer(response: Response, schema: z.ZodType): Promise<unknown> {
  try {
    return schema.parse(await response.json())
  } catch (cause) {
    throw new ApiError({
      code: 'bad_answer',
      status: response.status,
      message: 'the answer is not the one of a Tenon server of this version',
      remedy: 'Check the address, and that client and server have the same version.',
      cause,
    })
  }
}

async function readError(response: Response): Promise<ApiError> {
  const said = await response.text().catch(() => '')
  const body = apiError.safeParse(asJson(said))
  // What many servers and proxies say to plain HTTP on a port for HTTPS.
  if (!body.success && response.status === 400 && /\bHTTPS\b/.test(said))
    return new ApiError({
      code: 'bad_answer',
      status: response.status,
      message: 'this address speaks HTTPS, not HTTP',
      remedy: 'Write https:// in front of it.',
    })
  if (!body.success) {
    return new ApiError({
      code: 'bad_answer',
      status: response.status,
      message: `the answer (${response.status}) is not one of a Tenon server`,
      remedy: 'Check the address.',
    })
  }
  return new ApiError({ ...body.data.error, status: response.status })
}

function asJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
