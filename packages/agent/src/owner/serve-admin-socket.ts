import { chmod, rm } from 'node:fs/promises'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import { z } from 'zod'
import { AgentError, messageOf } from '../ground/errors.ts'
import { StoreError } from '../store/store-error.ts'
import type { OwnerAccess } from './owner-access.ts'

/** A secret and its JSON around it. */
const MAX_BODY_BYTES = 1_048_576

export interface AdminSocket {
  close(): Promise<void>
}

/** The admin socket. It asks for no token: its folder lets nobody in but the owner, and jobs never see it. */
export async function serveAdminSocket(options: {
  /** In a folder that only this user can enter. */
  socket: string
  access: OwnerAccess
  log: Logger
}): Promise<AdminSocket> {
  const server = http.createServer({ requestTimeout: 10_000, headersTimeout: 5000 }, (request, response) => {
    answer(options.access, options.log, request, response).catch(() => response.destroy())
  })
  server.on('clientError', (_error, socket) => socket.destroy())
  await rm(options.socket, { force: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.socket, resolve)
  })
  await chmod(options.socket, 0o600)
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function answer(
  access: OwnerAccess,
  log: Logger,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const call = `${request.method} ${(request.url ?? '').split('/').slice(0, 3).join('/')}`
  try {
    const value = await route(access, request)
    if (request.method !== 'GET') log.info({ call }, 'the owner of the folder asked for a change')
    reply(response, 200, value)
  } catch (error) {
    const coded = error instanceof AgentError || error instanceof StoreError
    if (!coded) log.error({ err: error, call }, 'a call of the owner failed')
    reply(response, coded ? 409 : 500, {
      error: {
        code: coded ? error.code : 'admin_failed',
        message: messageOf(error),
        remedy: error instanceof AgentError ? error.remedy : '',
      },
    })
  } finally {
    request.resume()
  }
}

async function route(access: OwnerAccess, request: IncomingMessage): Promise<unknown> {
  const [, version, noun = '', argument = '', verb = ''] = (request.url ?? '').split('/')
  const call = version === 'v1' ? [request.method, noun, argument && ':', verb].filter(Boolean).join(' ') : ''
  switch (call) {
    case 'GET status':
      return access.status()
    case 'GET secrets':
      return access.secrets()
    case 'PUT secrets :':
      return access.setSecret(decodeURIComponent(argument), (await readBody(request)).value)
    case 'POST jobs : stop':
      return access.stopJob(decodeURIComponent(argument))
    case 'POST pause':
      return access.pause()
    case 'POST resume':
      return access.resume()
    case 'POST rotate-key':
      return access.rotateKey()
    case 'POST release':
      return access.release()
    default:
      throw new AgentError(
        'admin_failed',
        'The running agent does not know this request.',
        'Use the program of the same version as the agent that runs.',
      )
  }
}

async function readBody(request: IncomingMessage): Promise<{ value: string }> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.byteLength
    if (size > MAX_BODY_BYTES)
      throw new AgentError('bad_value', 'The value is too large.', 'Set a smaller one.')
    parts.push(part)
  }
  return z.object({ value: z.string() }).parse(JSON.parse(Buffer.concat(parts).toString('utf8')))
}

function reply(response: ServerResponse, status: number, body: unknown): void {
  const payload = Buffer.from(JSON.stringify(body))
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' }).end(payload)
}
