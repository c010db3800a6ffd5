import { randomBytes } from 'node:crypto'
import { parseDocument } from '@tenon/core'
import {
  binaryName,
  MAX_CONTROL_FRAME,
  PRODUCT_VERSION,
  SERVER_FRAMES,
  serverFrame,
  WIRE_RANGE,
  type AgentFrame,
  type ServerFrame,
} from '@tenon/protocol'
import { WebSocket } from 'ws'
import { messageOf } from '../ground/errors.ts'
import { proxyAgent } from '../ground/proxy.ts'
import type { ChannelOptions, Welcome } from './channel.ts'
import { checkChallenge } from './handshake.ts'

const HANDSHAKE_MS = 15_000
const MISSED_HEARTBEATS = 3
const MIN_BEAT_MS = 10
const MAX_BEAT_MS = 300_000
/** What all log streams together may have waiting in the socket: a heartbeat never queues behind more than this. */
const MAX_BUFFERED_BYTES = 524_288

/** Why a connection ended, as far as the next one cares. */
export interface ConnectionEnd {
  /** Only a server that proved itself is believed at once. */
  verified: boolean
  welcomed: boolean
  rejected: string | undefined
  message: string
}

/** One WebSocket from `open` to its end. Never throws: whatever goes wrong is told by `ended`. */
export class Connection {
  readonly ended: Promise<ConnectionEnd>
  readonly #options: ChannelOptions
  readonly #ws: WebSocket
  readonly #agentNonce = randomBytes(32).toString('base64')
  #phase: 'opening' | 'proving' | 'greeting' | 'open' | 'over' = 'opening'
  #end: ConnectionEnd = { verified: false, welcomed: false, rejected: undefined, message: '' }
  #handshakeTimer: NodeJS.Timeout | undefined
  #heartbeatTimer: NodeJS.Timeout | undefined
  #silentBeats = 0

  constructor(options: ChannelOptions) {
    this.#options = options
    const url = channelUrl(options.serverUrl)
    const agent = proxyAgent(url, options.proxy)
    this.#ws = new WebSocket(url, {
      perMessageDeflate: false,
      maxPayload: MAX_CONTROL_FRAME,
      handshakeTimeout: HANDSHAKE_MS,
      ...(agent ? { agent } : {}),
    })
    this.#handshakeTimer = setTimeout(() => this.#drop('the handshake took too long'), HANDSHAKE_MS)
    this.ended = new Promise((resolve) => {
      this.#ws.once('close', (code) => {
        clearTimeout(this.#handshakeTimer)
        clearInterval(this.#heartbeatTimer)
        this.#note(`the connection was closed (${code})`)
        resolve(this.#end)
      })
    })
    this.#ws.on('error', (error) => this.#note(error.message))
    this.#ws.on('open', () => this.#opened())
    this.#ws.on('message', (data, isBinary) => this.#received(data as Buffer, isBinary))
    this.#ws.on('ping', () => (this.#silentBeats = 0))
  }

  get isOpen(): boolean {
    return this.#phase === 'open' && this.#ws.readyState === WebSocket.OPEN
  }

  /** False when nothing was sent; then it has to wait for the next session. */
  send(frame: AgentFrame): boolean {
    return this.isOpen && this.#write(frame)
  }

  /** Resolves when more may be sent. */
  async sendBulk(bytes: Uint8Array): Promise<void> {
    if (!this.isOpen) return
    await new Promise<void>((resolve) => {
      this.#ws.send(bytes, { binary: true }, () => resolve())
      if (this.#ws.bufferedAmount <= MAX_BUFFERED_BYTES) resolve()
    })
  }

  /** `ended` resolves soon after, also when the other side says nothing any more. */
  close(message: string): void {
    this.#phase = 'over'
    this.#note(message)
    this.#ws.close(1000)
    setTimeout(() => this.#ws.terminate(), 1000).unref()
  }

  #opened(): void {
    this.#phase = 'proving'
    this.#write({
      type: 'open',
      wire: WIRE_RANGE,
      agentId: this.#options.agentId,
      nonce: this.#agentNonce,
    })
  }

  #write(frame: AgentFrame): boolean {
    const text = JSON.stringify(frame)
    if (Buffer.byteLength(text) > MAX_CONTROL_FRAME) {
      this.#options.log.error({ type: frame.type, bytes: text.length }, 'frame is too large and was not sent')
      return false
    }
    this.#ws.send(text)
    return true
  }

  #received(data: Buffer, isBinary: boolean): void {
    this.#silentBeats = 0
    if (this.#phase === 'over') return
    const { frame, unknown } = isBinary ? readBinary(data) : readFrame(data)
    if (unknown !== undefined) this.#unsupported(unknown)
    if (!frame) {
      this.#options.log.warn(
        { isBinary, bytes: data.byteLength },
        'frame of the server not understood, ignored',
      )
      return
    }
    if (frame.type === 'reject') return this.#rejected(frame.code, frame.message)
    if (this.#phase === 'open') return this.#handle(frame)
    if (this.#phase === 'proving' && frame.type === 'challenge') {
      this.#phase = 'greeting'
      this.#greet(frame).catch((error: unknown) => this.#drop(messageOf(error)))
      return
    }
    if (this.#phase === 'greeting' && frame.type === 'welcome' && this.#end.verified)
      return this.#welcomed(frame)
    this.#options.log.warn({ type: frame.type }, 'frame of the server came out of order, ignored')
  }

  /** A server that is newer may say what this agent does not know; the rest of its words still count. */
  #unsupported(type: string): void {
    const message = `this agent (${PRODUCT_VERSION}) knows no frame ${type}; update it`
    this.send({ type: 'unsupported', frame: type, code: 'unknown_frame', message })
  }

  async #greet(challenge: Extract<ServerFrame, { type: 'challenge' }>): Promise<void> {
    const { agentId, serverId, keys, onKeys, hello, clock } = this.#options
    const agentNonce = this.#agentNonce
    const known = keys()
    const checked = checkChallenge({ challenge, agentId, serverId, agentNonce, known, nowMs: clock() })
    if (!checked.ok) {
      this.#options.log.error(
        { problem: checked.message },
        'the server did not prove itself; nothing is answered',
      )
      return this.#drop(`the challenge is not valid: ${checked.message}`)
    }
    await onKeys(challenge.keys)
    this.#end.verified = true
    const { bootCounter, bootId, sign } = this.#options
    const { nonce, wire } = checked.challenge
    const ofConnection = { agentId, serverId, agentNonce, nonce, wire, speaks: WIRE_RANGE }
    const greeting = { ...ofConnection, bootCounter, bootId, ...hello() }
    this.#write({ type: 'hello', hello: sign('agent-hello/2', greeting) })
  }

  #welcomed(welcome: Welcome): void {
    clearTimeout(this.#handshakeTimer)
    this.#phase = 'open'
    this.#end.welcomed = true
    const everyMs = Math.min(Math.max(welcome.heartbeatSeconds * 1000, MIN_BEAT_MS), MAX_BEAT_MS)
    this.#heartbeatTimer = setInterval(() => this.#beat(), everyMs)
    this.#guard(() => this.#options.onWelcome(welcome))
  }

  #beat(): void {
    if (this.#silentBeats >= MISSED_HEARTBEATS)
      return this.#drop('the server said nothing for three heartbeats')
    this.#silentBeats += 1
    this.#write({ type: 'heartbeat', ...this.#options.heartbeat() })
  }

  #handle(frame: ServerFrame): void {
    if (frame.type === 'heartbeat.ack') return
    this.#guard(() => this.#options.onFrame(frame))
  }

  /** A mistake in a handler must not cost the connection. */
  #guard(act: () => void): void {
    try {
      act()
    } catch (error) {
      this.#options.log.error({ err: error }, 'a frame of the server could not be handled')
    }
  }

  #rejected(code: string, message: string): void {
    this.#end.rejected = code
    this.#note(`the server rejected the session: ${code}: ${message.slice(0, 300)}`)
    this.close('')
  }

  #note(message: string): void {
    this.#end.message ||= message
  }

  #drop(message: string): void {
    this.#note(message)
    this.#ws.terminate()
  }
}

function channelUrl(serverUrl: string): URL {
  const url = new URL('agent/v1/channel', serverUrl.endsWith('/') ? serverUrl : `${serverUrl}/`)
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
  return url
}

interface Read {
  frame?: ServerFrame
  unknown?: string
}

/** No server sends any to agents of this version. */
function readBinary([kind]: Buffer): Read {
  return kind === undefined ? {} : { unknown: binaryName(kind) }
}

function readFrame(data: Buffer): Read {
  const value = parseDocument(data.toString('utf8'))
  const frame = serverFrame.safeParse(value).data
  if (frame) return { frame }
  const { type } = (value ?? {}) as { type?: unknown }
  return typeof type === 'string' && !SERVER_FRAMES.has(type) ? { unknown: type.slice(0, 64) } : {}
}
