import { signingBytes, type AuditHead } from '@tenon/core'
import {
  agentFrame,
  BULK_LOG,
  decodeBulk,
  MAX_CONTROL_FRAME,
  WIRE_VERSION,
  type AgentFrame,
  type RejectCode,
  type ServerFrame,
} from '@tenon/protocol'
import { randomBytes } from 'node:crypto'
import type { WebSocket } from 'ws'
import type { Context } from '../context.ts'
import { isDatabaseAway, isUnstorable } from '../store/database.ts'
import { openSession, type Challenge, type OpenedSession } from '../operations/open-session.ts'
import { createLogSink, type LogSink } from './log-sink.ts'
import { createDispatcher, type Dispatcher } from './dispatcher.ts'
import { handleFrame } from './frames.ts'
import { forgetSession, type Sessions } from './sessions.ts'

/** Everything about an agent that is connected here. Kept small: there may be thousands. */
export interface Session extends OpenedSession {
  agentId: string
  send(frame: ServerFrame): void
  reject(code: RejectCode, message: string): void
  /** Tells the agent the server's keys, unless it knows the newest one. */
  announceKeys(): void
  /** When the last byte of the agent came. */
  heardAt(): number
  dispatcher: Dispatcher
  sinks: Map<number, LogSink>
}

type Phase =
  | { at: 'opening' }
  | { at: 'challenged'; challenge: Challenge }
  | { at: 'ready'; session: Session }
  | { at: 'closed' }

const HANDSHAKE_MS = 15_000
/** What may wait to be handled before the connection is read no further; each frame counts some bytes more than it has. */
const MAX_WAITING_BYTES = 4_194_304
const FRAME_BYTES = 1_000

/** One agent's connection, from the first byte to the last. Frames are handled one after the other, in their order. */
export function serveConnection(context: Context, sessions: Sessions, socket: WebSocket): void {
  const connection = new Connection(context, sessions, socket)
  connection.listen()
}

class Connection {
  readonly #context: Context
  readonly #sessions: Sessions
  readonly #socket: WebSocket
  readonly #patience: NodeJS.Timeout
  #phase: Phase = { at: 'opening' }
  #work: Promise<void> = Promise.resolve()
  #waitingBytes = 0
  #announcedKey = ''
  #heardAt: number

  constructor(context: Context, sessions: Sessions, socket: WebSocket) {
    this.#context = context
    this.#sessions = sessions
    this.#socket = socket
    this.#heardAt = context.now()
    this.#patience = setTimeout(() => this.reject('out_of_order', 'no handshake in time'), HANDSHAKE_MS)
  }

  listen(): void {
    const socket = this.#socket
    // On a frame it cannot read, ws has already sent the reason and closes by itself.
    socket.on('error', () => socket.readyState === socket.OPEN && socket.terminate())
    socket.on('close', () => this.#close())
    socket.on('message', (data: Buffer, isBinary: boolean) => this.#receive(data, isBinary))
  }

  send(frame: ServerFrame): void {
    if (frame.type === 'job.assign') this.announceKeys()
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(JSON.stringify(frame))
  }

  reject(code: RejectCode, message: string): void {
    if (this.#phase.at === 'closed') return
    this.send({ type: 'reject', code, message })
    this.#socket.close(4000, code)
    this.#close()
  }

  announceKeys(): void {
    const { keyId } = this.#context.keys.current()
    if (keyId === this.#announcedKey) return
    this.#announcedKey = keyId
    this.send({ type: 'keys', keys: this.#context.keys.links() })
  }

  #close(): void {
    clearTimeout(this.#patience)
    this.#socket.resume()
    if (this.#phase.at === 'ready') void this.#sessions.remove(this.#phase.session)
    this.#phase = { at: 'closed' }
  }

  #receive(data: Buffer, isBinary: boolean): void {
    if (this.#phase.at === 'closed') return
    this.#heardAt = this.#context.now()
    if (data.byteLength > MAX_CONTROL_FRAME)
      return this.reject('too_large', `a frame may have ${MAX_CONTROL_FRAME} bytes`)
    if (isBinary) return this.#takeBulk(data)
    const frame = parseFrame(data)
    if (!frame) return this.reject('bad_frame', 'this is no frame of the agent channel')
    const bytes = data.byteLength + FRAME_BYTES
    this.#waitingBytes += bytes
    if (this.#waitingBytes > MAX_WAITING_BYTES) this.#socket.pause()
    this.#work = this.#work.then(() => this.#take(frame)).finally(() => this.#taken(bytes))
  }

  #taken(bytes: number): void {
    this.#waitingBytes -= bytes
    if (this.#socket.isPaused && this.#waitingBytes < MAX_WAITING_BYTES / 2) this.#socket.resume()
  }

  async #take(frame: AgentFrame): Promise<void> {
    const phase = this.#phase
    try {
      if (phase.at === 'closed') return
      if (phase.at === 'ready' && frame.type !== 'open' && frame.type !== 'hello')
        return await handleFrame(this.#context, this.#sessions, phase.session, frame)
      if (phase.at === 'opening' && frame.type === 'open') return this.#challenge(frame)
      if (phase.at === 'challenged' && frame.type === 'hello')
        return await this.#welcome(phase.challenge, frame)
      this.reject('out_of_order', `a ${frame.type} frame does not belong here`)
    } catch (error) {
      if (isUnstorable(error)) return this.reject('bad_frame', 'this frame holds what cannot be stored')
      // With the database away nothing was stored, so nothing is acknowledged: the agent keeps it and comes again.
      if (!isDatabaseAway(error))
        this.#context.log.error({ err: error, frame: frame.type }, 'a frame could not be handled')
      this.reject('busy', 'the server cannot store this now; connect again')
    }
  }

  #challenge(frame: Extract<AgentFrame, { type: 'open' }>): void {
    if (frame.wire !== WIRE_VERSION)
      return this.reject(
        'wire_version',
        `this server speaks wire version ${WIRE_VERSION}; update the older side`,
      )
    const { keys, serverId } = this.#context
    const nonce = randomBytes(24).toString('base64')
    const { keyId, key } = keys.current()
    const { agentId, nonce: agentNonce, wire } = frame
    const signature = key.sign(signingBytes('server-challenge/1', { agentId, agentNonce, nonce, serverId }))
    this.#phase = { at: 'challenged', challenge: { agentId, agentNonce, nonce, wire } }
    this.#announcedKey = keyId
    this.send({
      type: 'challenge',
      wire: WIRE_VERSION,
      serverId,
      nonce,
      keyId,
      signature,
      keys: keys.links(),
    })
  }

  async #welcome(given: Challenge, hello: Extract<AgentFrame, { type: 'hello' }>): Promise<void> {
    const opened = await openSession(this.#context, given, hello)
    if (!opened.ok) return this.reject(opened.code, opened.message)
    const session = this.#sessionOf(given.agentId, opened.session, hello.slots)
    // The agent may have gone while its session was opened.
    if (this.#phase.at !== 'challenged') return forgetSession(this.#context, session)
    clearTimeout(this.#patience)
    this.#phase = { at: 'ready', session }
    this.#sessions.add(session)
    const { heartbeatSeconds, leaseSeconds } = this.#context.config
    const { sessionId, verdicts, auditHead, eventSeq } = session
    const at = new Date(this.#context.now()).toISOString()
    this.send({
      type: 'welcome',
      sessionId,
      heartbeatSeconds,
      leaseSeconds,
      verdicts,
      auditHead,
      eventSeq,
      at,
    })
    session.verdicts = []
    session.dispatcher.nudge()
    this.#sessions.control(session.agentId)
  }

  #sessionOf(agentId: string, opened: OpenedSession, slots: number): Session {
    const send = (frame: ServerFrame) => this.send(frame)
    return {
      ...opened,
      agentId,
      send,
      reject: (code, message) => this.reject(code, message),
      announceKeys: () => this.announceKeys(),
      heardAt: () => this.#heardAt,
      sinks: new Map(),
      dispatcher: createDispatcher(this.#context, opened, agentId, slots, send),
    }
  }

  #takeBulk(data: Buffer): void {
    const frame = decodeBulk(data)
    if (this.#phase.at !== 'ready' || !frame || frame.kind !== BULK_LOG)
      return this.reject('bad_frame', 'this is no binary frame of the agent channel')
    const sink = this.#phase.session.sinks.get(frame.stream)
    if (sink && !sink.write(frame.offset, frame.payload))
      this.reject('out_of_order', 'log bytes are missing in between')
  }
}

/** Opened here because the sink must exist before the agent hears where to start. */
export function openSink(
  context: Context,
  session: Session,
  stream: number,
  jobId: string,
  start: number,
): void {
  // One log has one sink: a job's next stream takes over from the one before.
  for (const [other, sink] of session.sinks) {
    if (other !== stream && sink.jobId !== jobId) continue
    sink.close()
    session.sinks.delete(other)
  }
  const acknowledge = (offset: number) => session.send({ type: 'log.ack', stream, offset })
  const forget = () => session.sinks.get(stream) === sink && session.sinks.delete(stream)
  const sink = createLogSink(context, jobId, start, acknowledge, forget)
  session.sinks.set(stream, sink)
  acknowledge(start)
}

/** Only what belongs to the chain of the agent's own install is for it to keep. */
export function headFor(session: Session, head: AuditHead | null): AuditHead | null {
  return head && head.chain === session.installId ? head : null
}

function parseFrame(data: Buffer): AgentFrame | undefined {
  try {
    return agentFrame.safeParse(JSON.parse(data.toString('utf8'))).data
  } catch {
    return undefined
  }
}
