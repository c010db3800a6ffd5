import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { chmod, mkdir, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Duplex } from 'node:stream'
import { sizeWords } from '@tenon/core'
import type { z } from 'zod'
import { MAX_BODY_BYTES } from '@tenon/protocol/local-host'
import type { LocalHostErrorCode } from '@tenon/protocol/local-host'
import { HostError, messageOf } from './errors.ts'
import type { Logger } from './logger.ts'

/** Read and thrown away past the limit, so that the sender is still there to hear the refusal. */
const MAX_DISCARDED_BYTES = 64 * MAX_BODY_BYTES

const STATUS: Partial<Record<LocalHostErrorCode, number>> = {
  body_too_large: 413,
  not_found: 404,
  install_not_found: 404,
  service_not_found: 404,
  port_unavailable: 409,
  closing: 503,
  internal: 500,
}

export interface Call {
  params: string[]
  query: URLSearchParams
  /** Aborts when the caller hangs up. */
  signal: AbortSignal
  body<T>(schema: z.ZodType<T>): Promise<T>
}

/** Each `*` in the path is one parameter. */
export interface Route {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  path: string
  answer: (call: Call) => Promise<unknown>
}

export interface SocketServer {
  close(): Promise<void>
}

export async function serveOnSocket(
  socketPath: string,
  routes: readonly Route[],
  log: Logger,
): Promise<SocketServer> {
  await mkdir(dirname(socketPath), { recursive: true, mode: 0o700 })
  await chmod(dirname(socketPath), 0o700)
  await rm(socketPath, { force: true })
  const server = createServer((request, response) => {
    respond(request, response, routes, log).catch((error: unknown) => {
      log.error({ error: messageOf(error) }, 'an answer could not be sent')
      response.destroy()
    })
  })
  server.on('clientError', (error, socket) => refuseGarbage(error, socket))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(socketPath, resolve)
  })
  await chmod(socketPath, 0o600)
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        setTimeout(() => server.closeAllConnections(), 500).unref()
      }),
  }
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  routes: readonly Route[],
  log: Logger,
): Promise<void> {
  const hangUp = new AbortController()
  response.on('close', () => hangUp.abort())
  try {
    const { route, params, query } = findRoute(request, routes)
    const body = <T>(schema: z.ZodType<T>) => readBody(request, schema)
    send(response, 200, await route.answer({ params, query, signal: hangUp.signal, body }))
  } catch (error) {
    const known = error instanceof HostError ? error : internal(error)
    if (known.code === 'internal') log.error({ error: messageOf(error), url: request.url }, 'a call failed')
    const { code, message, remedy } = known
    request.resume()
    send(response, STATUS[code] ?? 400, { error: { code, message, remedy } })
  }
}

/** What is not HTTP has no response object; the refusal is written as bytes. */
function refuseGarbage(error: Error, socket: Duplex): void {
  if (!socket.writable) return void socket.destroy()
  const refusal = { code: 'invalid_request', message: error.message, remedy: 'Speak HTTP/1.1.' }
  const payload = JSON.stringify({ error: refusal })
  const head = `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close`
  socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(payload)}\r\n\r\n${payload}`)
}

function findRoute(
  request: IncomingMessage,
  routes: readonly Route[],
): { route: Route; params: string[]; query: URLSearchParams } {
  const [path = '', search = ''] = (request.url ?? '/').split('?', 2)
  const parts = path.split('/')
  for (const route of routes) {
    const pattern = route.path.split('/')
    const fits =
      pattern.length === parts.length && pattern.every((part, i) => part === '*' || part === parts[i])
    if (!fits || route.method !== request.method) continue
    const params = parts.filter((_part, i) => pattern[i] === '*').map(decode)
    return { route, params, query: new URLSearchParams(search) }
  }
  const message = `There is no ${request.method} ${path.slice(0, 200)}.`
  throw new HostError('not_found', message, 'See the contract for the calls of this socket.')
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch (error) {
    throw new HostError('invalid_name', 'A name in the path is not encoded rightly.', 'Encode it.', error)
  }
}

async function readBody<T>(request: IncomingMessage, schema: z.ZodType<T>): Promise<T> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size <= MAX_BODY_BYTES) chunks.push(chunk)
    if (size > MAX_DISCARDED_BYTES) break
  }
  if (size > MAX_BODY_BYTES) {
    const message = `The body is larger than ${sizeWords(MAX_BODY_BYTES)}.`
    throw new HostError('body_too_large', message, 'Send large content as a bundle folder.')
  }
  const parsed = schema.safeParse(parseJson(Buffer.concat(chunks).toString('utf8')))
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'body'}: ${issue.message}`)
  throw new HostError('invalid_request', issues.slice(0, 5).join('; '), 'Correct the named fields.')
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    throw new HostError('invalid_request', 'The body is not JSON.', 'Send a JSON object.', error)
  }
}

function send(response: ServerResponse, status: number, value: unknown): void {
  const payload = Buffer.from(JSON.stringify(value))
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': payload.length })
  response.end(payload)
}

function internal(cause: unknown): HostError {
  const message = `The local-host failed: ${messageOf(cause)}`
  return new HostError('internal', message, 'Look into the log of the local-host.', cause)
}
