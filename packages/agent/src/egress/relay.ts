import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Logger } from 'pino'
import { messageOf } from '../ground/errors.ts'
import type { ProxySettings } from '../ground/proxy.ts'
import { decideEgress, type Declared, type EgressRules } from './decide.ts'
import { dial, DialError } from './dial.ts'

/** What the relay needs to know of the job that asks. */
export interface RelayedJob {
  jobId: string
  rules: EgressRules
  /** Asked only when it matters. */
  declared(): Promise<Declared>
}

export interface Relay {
  /** Answers one `CONNECT host:port` of a job and carries its bytes. Never rejects. */
  connect(job: RelayedJob, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void>
  close(): void
}

const STATUS = {
  bad_target: 400,
  network_refused: 403,
  address_refused: 403,
  too_many_connections: 429,
  unreachable: 502,
  proxy_failed: 502,
} as const

/** Of one job at once: far more than tools open, and few enough that no job takes the agent's descriptors. */
export const MAX_CONNECTIONS = 256
/** After one side has said its last word, and maybe died, the other may be silent for this long. */
const HALF_OPEN_MS = 600_000

/** The one way out of a job that has a network of its own: by name, with a line in the agent's log for each connection. */
export function createRelay({ proxy, log }: { proxy: ProxySettings; log: Logger }): Relay {
  const open = new Set<Duplex>()
  const ofJob = new Map<string, number>()
  const counts = { connected: 0, refused: 0 }
  let isClosed = false
  const decide = async (to: string, job: RelayedJob) => {
    const plain = decideEgress(to, job.rules)
    if (plain.ok) return plain
    const declared = await job.declared().catch((error: unknown) => {
      log.warn({ jobId: job.jobId, reason: messageOf(error) }, 'what a job may reach besides cannot be read')
      return undefined
    })
    return decideEgress(to, job.rules, declared)
  }
  return {
    async connect(job, request, socket, head) {
      const to = (request.url ?? '').slice(0, 300)
      const { jobId } = job
      hold(open, socket)
      if (isClosed) return void socket.destroy()
      if (!count(ofJob, jobId, socket)) {
        log.warn({ jobId, to, code: TOO_MANY.code, open: MAX_CONNECTIONS }, 'a job is not connected')
        return answer(socket, TOO_MANY)
      }
      const verdict = await decide(to, job)
      if (!verdict.ok) {
        counts.refused += 1
        log.warn({ jobId, to, code: verdict.code, refused: counts.refused }, 'a job may not connect there')
        return answer(socket, verdict)
      }
      try {
        const dialed = await dial(verdict.target, { ...verdict, proxy })
        // The job or the agent may have gone meanwhile, and nobody else would ever end what was dialed.
        if (isClosed) socket.destroy()
        if (socket.destroyed) return void dialed.socket.destroy()
        counts.connected += 1
        log.info({ jobId, to, via: dialed.via, connected: counts.connected }, 'a job connects out')
        hold(open, dialed.socket)
        socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
        if (head.byteLength > 0) dialed.socket.write(head)
        join(socket, dialed.socket)
      } catch (error) {
        const { code, message, remedy } = asDialError(error)
        if (code === 'address_refused') counts.refused += 1
        log.warn({ jobId, to, code, reason: message, refused: counts.refused }, 'a job is not connected')
        answer(socket, { code, message, remedy })
      }
    },
    close() {
      isClosed = true
      for (const socket of open) socket.destroy()
    },
  }
}

const TOO_MANY = {
  code: 'too_many_connections',
  message: `This job has ${MAX_CONNECTIONS} connections open already.`,
  remedy: 'Have it close those that it does not need, or open fewer at once.',
} as const

/** False when the job has as many as it may. */
function count(ofJob: Map<string, number>, jobId: string, socket: Duplex): boolean {
  const before = ofJob.get(jobId) ?? 0
  if (before >= MAX_CONNECTIONS) return false
  ofJob.set(jobId, before + 1)
  socket.once('close', () => {
    const left = (ofJob.get(jobId) ?? 1) - 1
    if (left === 0) ofJob.delete(jobId)
    else ofJob.set(jobId, left)
  })
  return true
}

function hold(open: Set<Duplex>, socket: Duplex): void {
  open.add(socket)
  socket.once('close', () => open.delete(socket))
  // Whoever broke off, the other side is told by `join`.
  socket.on('error', () => undefined)
}

function join(one: Duplex, other: Socket): void {
  one.pipe(other)
  other.pipe(one)
  for (const side of [one, other])
    side.once('end', () => other.setTimeout(HALF_OPEN_MS, () => other.destroy()))
  one.once('close', () => other.destroy())
  other.once('close', () => one.destroy())
}

function asDialError(error: unknown): DialError {
  if (error instanceof DialError) return error
  return new DialError('unreachable', 'The agent could not connect.', "Look at the agent's own log.", {
    cause: error,
  })
}

function answer(
  socket: Duplex,
  { code, message, remedy }: { code: keyof typeof STATUS; message: string; remedy: string },
): void {
  const body = JSON.stringify({ error: { code, message, remedy } })
  const head = [
    `HTTP/1.1 ${STATUS[code]} Not connected`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
