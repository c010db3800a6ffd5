import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { flatManifest } from '@tenon/core'
import { WebSocketServer, type WebSocket } from 'ws'
import { createLink, type Link, type Pass } from './wire-link.ts'

export type Direction = 'toServer' | 'toAgent'

/** One frame on its way, seen between the two sides. */
export interface WireFrame {
  direction: Direction
  /** The frame's own type, or `binary`. */
  type: string
  data: Buffer
  /** The parsed frame; empty for a binary one. */
  content: { [key: string]: unknown }
  /** The job that it is about, by its id and by its step (`deploy:web`), as far as the wire has seen it assigned. */
  jobId: string | undefined
  job: string | undefined
}

/** What becomes of a frame. Nothing returned lets it pass. */
export type Fate = 'pass' | 'drop' | { instead: string } | void
export type TapAction = (frame: WireFrame) => Fate | Promise<Fate>

export interface Held {
  frame: WireFrame
  /** Sends it now, on the connection that is there now. */
  deliver(data?: string): void
}

/** Stands between an agent and its server and knows every frame. Faults happen at exact frames, never by waiting. */
export interface Wire {
  url: string
  /** Where the server listens; a restarted one may listen elsewhere. */
  target(url: string): void
  on(direction: Direction, type: string, action: TapAction): { off(): void }
  /** For the first frame that matches; resolves after the action. Later frames wait until it is done. */
  once(
    direction: Direction,
    type: string,
    match: (frame: WireFrame) => boolean,
    action: TapAction,
  ): Promise<WireFrame>
  /** Takes the first frame that matches out of the stream; the ones after it go on. */
  hold(direction: Direction, type: string, match?: (frame: WireFrame) => boolean): Promise<Held>
  /** Sends a frame that neither side made now. */
  inject(direction: Direction, data: string): void
  /** Ends every connection and refuses new ones. */
  cut(): void
  mend(): void
  /** Every frame that came to the wire, and every HTTP body. */
  capture: WireFrame[]
  captured(): string
  close(): Promise<void>
}

export async function createWire(upstream: string): Promise<Wire> {
  let target = upstream
  let isCut = false
  const taps = createTaps()
  const links = new Set<Link>()
  const sockets = new Set<Socket>()
  const bodies: Buffer[] = []
  const http = createServer((incoming, answer) => forward(target, incoming, answer, bodies))
  http.on('connection', (socket: Socket) => {
    if (isCut) return socket.destroy()
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  const acceptor = new WebSocketServer({ noServer: true, perMessageDeflate: false })
  http.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => socket.destroy())
    const url = new URL(incoming.url ?? '/', target)
    const accept = (take: (agent: WebSocket) => void) => acceptor.handleUpgrade(incoming, socket, head, take)
    createLink(url, taps.pass, accept, socket)
      .then((link) => {
        links.add(link)
        return link.ended.then(() => links.delete(link))
      })
      .catch(() => socket.destroy())
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))

  const inject = (direction: Direction, data: string) => {
    const link = [...links].at(-1)
    if (!link) throw new Error('nobody is connected through this wire')
    link.send(direction, Buffer.from(data), false)
  }
  const cut = () => {
    isCut = true
    for (const link of links) link.destroy()
    for (const socket of sockets) socket.destroy()
  }
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    target: (url) => void (target = url),
    on: taps.on,
    once: taps.once,
    async hold(direction, type, match = () => true) {
      const frame = await taps.once(direction, type, match, () => 'drop')
      return { frame, deliver: (data) => inject(direction, data ?? frame.data.toString()) }
    },
    inject,
    cut,
    mend: () => void (isCut = false),
    capture: taps.capture,
    captured: () => Buffer.concat([...taps.capture.map((frame) => frame.data), ...bodies]).toString('latin1'),
    async close() {
      cut()
      await new Promise<void>((resolve) => http.close(() => resolve()))
    },
  }
}

interface Tap {
  direction: Direction
  type: string
  action: TapAction
}

/** Who listens for which frame, and what became of each. */
function createTaps(): Pick<Wire, 'on' | 'once' | 'capture'> & { pass: Pass } {
  const taps = new Set<Tap>()
  const capture: WireFrame[] = []
  const jobs = new Map<string, string>()
  const on: Wire['on'] = (direction, type, action) => {
    const tap = { direction, type, action }
    taps.add(tap)
    return { off: () => void taps.delete(tap) }
  }
  return {
    capture,
    on,
    once: (direction, type, match, action) =>
      new Promise((resolve, reject) => {
        const tap = on(direction, type, async (frame) => {
          if (!match(frame)) return 'pass'
          tap.off()
          try {
            return await action(frame)
          } catch (error) {
            reject(error as Error)
            return 'drop'
          } finally {
            resolve(frame)
          }
        })
      }),
    async pass(direction, data, isBinary) {
      const frame = readFrame(direction, data, isBinary, jobs)
      capture.push(frame)
      for (const tap of taps) {
        if (tap.direction !== direction || tap.type !== frame.type) continue
        const fate = await tap.action(frame)
        if (fate === 'drop') return undefined
        if (typeof fate === 'object') return Buffer.from(fate.instead)
      }
      return data
    },
  }
}

/** Everything that is no channel (prove, enrol, registry) goes through as it is. */
function forward(target: string, incoming: IncomingMessage, answer: ServerResponse, bodies: Buffer[]): void {
  const url = new URL(incoming.url ?? '/', target)
  const headers = { ...incoming.headers, host: url.host }
  const outgoing = request(url, { method: incoming.method, headers }, (response) => {
    answer.writeHead(response.statusCode ?? 502, response.headers)
    response.on('data', (chunk: Buffer) => bodies.push(chunk))
    response.on('error', () => answer.destroy())
    response.pipe(answer)
  })
  outgoing.on('error', () => answer.destroy())
  incoming.on('data', (chunk: Buffer) => bodies.push(chunk))
  incoming.on('error', () => outgoing.destroy())
  incoming.pipe(outgoing)
}

function readFrame(
  direction: Direction,
  data: Buffer,
  isBinary: boolean,
  jobs: Map<string, string>,
): WireFrame {
  if (isBinary) return { direction, type: 'binary', data, content: {}, jobId: undefined, job: undefined }
  const content = JSON.parse(data.toString()) as WireFrame['content']
  if (content['type'] === 'job.assign') learnJob(content, jobs)
  const jobId = jobOf(content)
  return { direction, type: String(content['type']), data, content, jobId, job: jobId && jobs.get(jobId) }
}

interface Assignment {
  jobId: string
  kind: string
  operations: { component: string | null }[]
}

export function manifestOf(frame: Pick<WireFrame, 'content'>): Assignment & { expiresAt: string } {
  const { text } = frame.content['manifest'] as { text: string }
  return flatManifest(JSON.parse(text)) as Assignment & { expiresAt: string }
}

function learnJob(content: WireFrame['content'], jobs: Map<string, string>): void {
  const { jobId, kind, operations } = manifestOf({ content })
  jobs.set(jobId, `${kind}:${operations[0]?.component ?? ''}`)
}

function jobOf(content: WireFrame['content']): string | undefined {
  if (content['type'] === 'job.assign') return manifestOf({ content }).jobId
  const { jobId } = content as { jobId?: unknown }
  return typeof jobId === 'string' ? jobId : undefined
}
