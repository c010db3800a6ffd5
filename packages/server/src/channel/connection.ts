import { parseDocument, signDocument, type SignedDocument } from '@tenon/core'
import {
  AGENT_FRAMES,
  agentFrame,
  agentHello,
  agreeOnWire,
  binaryName,
  BULK_LOG,
  decodeBulk,
  describeDisagreement,
  MAX_CONTROL_FRAME,
  PRODUCT_VERSION,
  WIRE_RANGE,
  type AgentFrame,
  type RejectCode,
  type ServerFrame,
} from '@tenon/protocol'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { WebSocket } from 'ws'
import type { Challenge, OpenedSession } from '../agents/connect.ts'
import { forgetSession } from '../agents/connections.ts'
import type { Context } from '../context.ts'
import { isDatabaseAway, isUnstorable } from '../store/database.ts'
import { Dispatcher } from './dispatcher.ts'
import { answerHeartbeat, handleFrame } from './frames.ts'
import type { Session } from './session.ts'
import type { Sessions } from './sessions.ts'
import type { SlotCounts } from './slots.ts'

type Frame<T extends AgentFrame['type']> = Extract<AgentFrame, { type: T }>

const HANDSHAKE_MS = 15_000
const DATABASE_RETRY_MS = 500
/** What may wait to be handled before the connection is read no further; each frame counts some bytes more than it has. */
const MAX_WAITING_BYTES = 4_194_304
const FRAME_BYTES = 1_000

/**
 * One agent's connection, from the first byte to the last: open, challenge, hello, welcome, then frames in their
 * order; those about different jobs do not wait for each other.
 */
export class Connection {
  readonly #context: Context
  readonly #sessions: Sessions
  readonly #socket: WebSocket
  readonly #together: () => void
  readonly #patience: NodeJS.Timeout
  #challenge: Challenge | undefined
  #session: Session | undefined
  #closed = false
  readonly #lanes = new Map<string, Promise<void>>()
  /** Words of a hold that are not taken yet, by job. */
  readonly #holds = new Map<string, number>()
  #waitingBytes = 0
  #announcedKey = ''
  #heardAt: number

  /** `together` is called before each frame, so that those of one moment share a packet. */
  constructor(context: Context, sessions: Sessions, socket: WebSocket, together: () => void) {
    this.#context = context
    this.#sessions = sessions
    this.#socket = socket
    this.#together = together
    this.#heardAt = context.now()
    this.#patience = setTimeout(() => this.reject('out_of_order', 'no handshake in time'), HANDSHAKE_MS)
    // On a frame it cannot read, ws has already sent the reason and closes by itself.
    socket.on('error', () => socket.readyState === socket.OPEN && socket.terminate())
    socket.on('close', () => this.#close())
    socket.on('message', (data: Buffer, isBinary: boolean) => this.#receive(data, isBinary))
  }

  send(frame: ServerFrame): void {
    if (frame.type === 'job.assign') this.announceKeys()
    if (this.#socket.readyState !== this.#socket.OPEN) return
    this.#together()
    this.#socket.send(JSON.stringify(frame))
  }

  reject(code: RejectCode, message: string): void {
    if (this.#closed) return
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
    this.#closed = true
    this.#socket.resume()
    if (this.#session) void this.#sessions.remove(this.#session)
  }

  #receive(data: Buffer, isBinary: boolean): void {
    if (this.#closed) return
    this.#heardAt = this.#context.now()
    if (data.byteLength > MAX_CONTROL_FRAME)
      return this.reject('too_large', `a frame may have ${MAX_CONTROL_FRAME} bytes`)
    if (isBinary) return this.#takeBulk(data)
    const read = readFrame(data)
    if (read === undefined) return this.reject('bad_frame', 'this is no frame of the agent channel')
    if ('unknown' in read) return this.#unsupported(read.unknown)
    const { frame } = read
    // A heartbeat never waits behind other frames: a chatty job must not make its agent look dead.
    if (frame.type === 'heartbeat' && this.#session)
      return answerHeartbeat(this.#context, this.#sessions, this.#session, frame)
    const bytes = data.byteLength + FRAME_BYTES
    this.#waitingBytes += bytes
    if (this.#waitingBytes > MAX_WAITING_BYTES) this.#socket.pause()
    this.#queue(this.#session ? this.#laneOf(frame) : '', frame, bytes)
  }

  /** An agent that is newer may say what this server does not know; the rest of its words still count. */
  #unsupported(type: string): void {
    if (!this.#session) return this.reject('out_of_order', 'a session begins with open and hello')
    const message = `this server (${PRODUCT_VERSION}) knows no frame ${type}; update it`
    this.send({ type: 'unsupported', frame: type, code: 'unknown_frame', message })
  }

  /** One that was held begins after what is said of its hold, which frees its slot. */
  #laneOf(frame: AgentFrame): string {
    if (frame.type === 'job.held') this.#holds.set(frame.jobId, (this.#holds.get(frame.jobId) ?? 0) + 1)
    return frame.type === 'job.started' && this.#holds.has(frame.jobId) ? frame.jobId : laneOf(frame)
  }

  #heldTaken(frame: AgentFrame): void {
    if (frame.type !== 'job.held') return
    const left = (this.#holds.get(frame.jobId) ?? 0) - 1
    if (left > 0) this.#holds.set(frame.jobId, left)
    else this.#holds.delete(frame.jobId)
  }

  #queue(lane: string, frame: AgentFrame, bytes: number): void {
    const before = this.#lanes.get(lane) ?? Promise.resolve()
    const work = before
      .then(() => this.#take(frame))
      .finally(() => {
        this.#taken(bytes)
        this.#heldTaken(frame)
        if (this.#lanes.get(lane) === work) this.#lanes.delete(lane)
      })
    this.#lanes.set(lane, work)
  }

  #taken(bytes: number): void {
    this.#waitingBytes -= bytes
    if (this.#socket.isPaused && this.#waitingBytes < MAX_WAITING_BYTES / 2) this.#socket.resume()
  }

  /** With the database away nothing is stored, so nothing is acknowledged: the frame waits here until it is back. */
  async #take(frame: AgentFrame): Promise<void> {
    while (!this.#closed) {
      try {
        return await this.#handle(frame)
      } catch (error) {
        if (isUnstorable(error)) return this.reject('bad_frame', 'this frame holds what cannot be stored')
        if (!isDatabaseAway(error)) {
          this.#context.log.error({ err: error, frame: frame.type }, 'a frame could not be handled')
          return this.reject('busy', 'the server could not handle this; connect again')
        }
        await pause(DATABASE_RETRY_MS)
      }
    }
  }

  async #handle(frame: AgentFrame): Promise<void> {
    if (this.#session) {
      if (frame.type !== 'open' && frame.type !== 'hello')
        return handleFrame(this.#context, this.#sessions, this.#session, frame)
    } else if (this.#challenge) {
      if (frame.type === 'hello') return this.#welcome(this.#challenge, frame.hello)
    } else if (frame.type === 'open') return this.#open(frame)
    this.reject('out_of_order', `a ${frame.type} frame does not belong here`)
  }

  #open(frame: Frame<'open'>): void {
    const wire = agreeOnWire(WIRE_RANGE, frame.wire)
    if (wire === undefined)
      return this.reject(
        'wire_version',
        describeDisagreement(WIRE_RANGE, frame.wire, 'this server', 'the agent'),
      )
    const { serverId, keys } = this.#context
    const nonce = randomBytes(24).toString('base64')
    const { keyId, key } = keys.current()
    this.#announcedKey = keyId
    const challenge = { agentId: frame.agentId, agentNonce: frame.nonce, nonce, serverId, wire }
    this.#challenge = challenge
    const signed = { ...challenge, version: PRODUCT_VERSION }
    this.send({
      type: 'challenge',
      challenge: signDocument('server-challenge/2', signed, keyId, key.sign),
      keys: keys.links(),
    })
  }

  async #welcome(challenge: Challenge, signed: SignedDocument): Promise<void> {
    const hello = agentHello.safeParse(parseDocument(signed.text)).data
    if (!hello) return this.reject('bad_frame', 'this is no hello')
    const opened = await this.#sessions.batches.open({ challenge, hello, signed })
    if (!opened.ok) return this.reject(opened.code, opened.message)
    const { verdicts, ...kept } = opened.session
    const { slots, runtime } = hello
    const counts = { slots, interactiveSlots: runtime.capacity?.interactiveSlots ?? 0 }
    const session = this.#sessionOf(challenge.agentId, kept, counts)
    // The agent may have gone while its session was opened.
    if (this.#closed) return forgetSession(this.#context, session)
    clearTimeout(this.#patience)
    this.#session = session
    this.#sessions.add(session)
    const { heartbeatSeconds, leaseSeconds } = this.#context.config
    const { sessionId, auditHead, eventSeq } = kept
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
    session.dispatcher.nudge()
    this.#sessions.control(session.agentId)
  }

  #sessionOf(agentId: string, opened: Omit<OpenedSession, 'verdicts'>, counts: SlotCounts): Session {
    const send = (frame: ServerFrame) => this.send(frame)
    const wire = { send, redial: (message: string) => this.reject('busy', message) }
    return {
      ...opened,
      agentId,
      send,
      reject: (code, message) => this.reject(code, message),
      announceKeys: () => this.announceKeys(),
      heardAt: () => this.#heardAt,
      sinks: new Map(),
      dispatcher: new Dispatcher(this.#context, this.#sessions.batches, { ...opened, agentId }, counts, wire),
    }
  }

  #takeBulk(data: Buffer): void {
    const [kind] = data
    if (this.#session && kind !== undefined && kind !== BULK_LOG) return this.#unsupported(binaryName(kind))
    const frame = decodeBulk(data)
    if (!this.#session || !frame)
      return this.reject('bad_frame', 'this is no binary frame of the agent channel')
    const sink = this.#session.sinks.get(frame.stream)
    if (sink && !sink.write(frame.offset, frame.payload))
      this.reject('out_of_order', 'log bytes are missing in between')
  }
}

/** What a job does is told in order; everything else about an agent shares one lane. */
function laneOf(frame: AgentFrame): string {
  switch (frame.type) {
    case 'job.accepted':
    case 'job.held':
    case 'job.refused':
    case 'job.progress':
    case 'job.finished':
      return frame.jobId
    // The batches keep the order: an end that follows at once shares the transaction of its start.
    case 'job.started':
      return `${frame.jobId}/started`
    default:
      return ''
  }
}

/** Undefined for what is no frame at all. */
function readFrame(data: Buffer): { frame: AgentFrame } | { unknown: string } | undefined {
  const value = parseDocument(data.toString('utf8'))
  const frame = agentFrame.safeParse(value).data
  if (frame) return { frame }
  const { type } = (value ?? {}) as { type?: unknown }
  const isUnknown =
    typeof type === 'string' && /^[a-z][a-z0-9_.-]{0,63}$/.test(type) && !AGENT_FRAMES.has(type)
  return isUnknown ? { unknown: type } : undefined
}
