import { API_ERRORS, routes, type ApiErrorCode, type CallOutput, type RouteName } from '@tenon/protocol'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { z } from 'zod'

/** What a handler is given, after the contract accepted it. */
interface Given {
  params: Record<string, string>
  query: Record<string, unknown>
  body: unknown
  response: ServerResponse
}

type Answer<N extends RouteName> =
  CallOutput<N> extends Response ? void | Promise<void> : CallOutput<N> | Promise<CallOutput<N>>
export type Handlers = { [N in RouteName]?: (given: Given) => Answer<N> }

/** Thrown by a handler: answered as the API answers errors. */
export class Refusal extends Error {
  readonly code: ApiErrorCode
  readonly remedy: string | undefined
  constructor(code: ApiErrorCode, message: string, remedy?: string) {
    super(message)
    this.code = code
    this.remedy = remedy
  }
}

export const TOKEN = 'tenon_test_token'

/** A real HTTP server that checks every request and every answer against the contract. */
export async function startApi(handlers: Handlers) {
  const calls: { name: RouteName; given: Given }[] = []
  const server = createServer((request, response) => {
    answer(request, response, handlers, calls).catch((error: unknown) => {
      const refusal = error instanceof Refusal ? error : new Refusal('internal', String(error))
      if (response.headersSent) return response.destroy()
      return sendError(response, refusal)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    calls,
    env: { TENON_URL: url, TENON_TOKEN: TOKEN },
    handlers,
    callsOf: (name: RouteName) => calls.filter((call) => call.name === name),
    cutConnections: () => server.closeAllConnections(),
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export type Api = Awaited<ReturnType<typeof startApi>>

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  handlers: Handlers,
  calls: { name: RouteName; given: Given }[],
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://localhost')
  const found = match(request.method ?? 'GET', url.pathname)
  if (!found) throw new Refusal('unknown_route', `no route ${url.pathname}`)
  if (request.headers.authorization !== `Bearer ${TOKEN}`)
    throw new Refusal('unauthorized', 'the token is not valid')
  const route = routes[found.name]
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const bytes = Buffer.concat(chunks)
  const given: Given = {
    params: check(route.params, found.params) as Record<string, string>,
    query: check(route.query, Object.fromEntries(url.searchParams)) as Record<string, unknown>,
    body:
      route.body === null || route.body === 'bytes' ? bytes : check(route.body, JSON.parse(bytes.toString())),
    response,
  }
  calls.push({ name: found.name, given })
  const handler = handlers[found.name] as ((given: Given) => unknown) | undefined
  if (!handler) throw new Refusal('not_found', `${found.name} is not part of this test`)
  const value = await handler(given)
  if (route.response === 'stream') return
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(route.response.parse(value)))
}

function match(
  method: string,
  path: string,
): { name: RouteName; params: Record<string, string> } | undefined {
  const segments = path.split('/')
  const literal = (name: RouteName) =>
    routes[name].path.split('/').filter((part) => !part.startsWith(':')).length
  const names = (Object.keys(routes) as RouteName[]).toSorted((a, b) => literal(b) - literal(a))
  for (const name of names) {
    const pattern = routes[name].path.split('/')
    if (routes[name].method !== method || pattern.length !== segments.length) continue
    if (!pattern.every((part, i) => part.startsWith(':') || part === segments[i])) continue
    const params = pattern.flatMap((part, i) =>
      part.startsWith(':') ? [[part.slice(1), decodeURIComponent(segments[i]!)]] : [],
    )
    return { name, params: Object.fromEntries(params) as Record<string, string> }
  }
  return undefined
}

function check(schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new Refusal('bad_request', z.prettifyError(result.error))
}

function sendError(response: ServerResponse, refusal: Refusal): void {
  const { code, message, remedy } = refusal
  response.writeHead(API_ERRORS[code], { 'content-type': 'application/json' })
  response.end(JSON.stringify({ error: { code, message, remedy, requestId: 'req-test-1' } }))
}
