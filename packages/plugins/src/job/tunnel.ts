import { request } from 'node:http'
import { request as secureRequest } from 'node:https'
import { isIP, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { isAbsent } from '../sdk/job-api.ts'
import type { SecureAddress } from '../sdk/unix-socket.ts'

export interface TunnelOptions {
  socketPath: string
  /** Instead of the socket. */
  secure?: SecureAddress
  token: string
  signal: AbortSignal
  /** How long an absent agent is waited for. */
  patienceMs?: number
}

const PATIENCE_MS = 60_000
const ASK_AGAIN_MS = 200
const ANSWER_MS = 30_000
const MAX_REFUSAL_BYTES = 16_384

const refusal = z.object({
  error: z.object({ code: z.string(), message: z.string(), remedy: z.string() }),
})

/** The agent said no, in words for the job's log. */
export class TunnelError extends Error {
  readonly status: number
  readonly line: string
  /** By the rules of the job, which stay as they are: asking again is useless. */
  readonly isRefused: boolean

  constructor(status: number, code: string, words: string) {
    super(words)
    this.name = 'TunnelError'
    this.status = status
    this.line = `error ${code}: ${words}`
    this.isRefused = status === 403
  }
}

/** A connection to `place` (host:port) through the agent, which decides; an agent that restarts is waited for. */
export async function openTunnel(
  options: TunnelOptions,
  place: string,
  giveUp?: AbortSignal,
): Promise<Socket> {
  const until = Date.now() + (options.patienceMs ?? PATIENCE_MS)
  for (;;) {
    try {
      return await ask(options, place, giveUp)
    } catch (error) {
      const isOver = Date.now() > until || options.signal.aborted || giveUp?.aborted
      if (!isAbsent(error) || isOver) throw error
      await delay(ASK_AGAIN_MS, undefined, { signal: options.signal })
    }
  }
}

function ask(
  { socketPath, secure, token }: TunnelOptions,
  place: string,
  signal?: AbortSignal,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const asking = (secure ? secureRequest : request)({
      ...(secure ? { ...secure, servername: nameOf(secure) } : { socketPath }),
      method: 'CONNECT',
      path: place,
      agent: false,
      timeout: ANSWER_MS,
      ...(signal ? { signal } : {}),
      headers: { host: place, authorization: `Bearer ${token}` },
    })
    asking.once('timeout', () => asking.destroy(new Error(`the agent did not connect to ${place} in time`)))
    asking.once('error', reject)
    asking.once('connect', ({ statusCode = 502 }, socket: Socket, head: Buffer) => {
      socket.setTimeout(0)
      // Whoever uses it sees it close; an agent that dies must not take the job with it.
      socket.on('error', () => undefined)
      if (statusCode === 200) {
        if (head.byteLength > 0) socket.unshift(head)
        resolve(socket)
        return
      }
      readAll(socket, head).then((text) => reject(refusalOf(place, statusCode, text)), reject)
    })
    asking.end()
  })
}

/** Otherwise Node expects a certificate of the place that the `host` header names. An address is no name for TLS. */
function nameOf({ host }: SecureAddress): string {
  return isIP(host) === 0 ? host : ''
}

async function readAll(socket: Socket, head: Buffer): Promise<string> {
  const parts = [head]
  let size = head.byteLength
  for await (const part of socket as AsyncIterable<Buffer>) {
    parts.push(part)
    size += part.byteLength
    if (size > MAX_REFUSAL_BYTES) break
  }
  socket.destroy()
  return Buffer.concat(parts).toString('utf8')
}

function refusalOf(place: string, status: number, text: string): TunnelError {
  const parsed = refusal.safeParse(parse(text))
  if (!parsed.success)
    return new TunnelError(status, 'unreachable', `the agent answered ${status} for ${place}`)
  const { code, message, remedy } = parsed.data.error
  return new TunnelError(status, code, `${message} ${remedy}`)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
