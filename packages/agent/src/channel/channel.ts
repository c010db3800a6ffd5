import { fullJitter, type KeyLink, type KnownKeys } from '@tenon/core'
import type { AgentFrame, RejectCode, ServerFrame } from '@tenon/protocol'
import type { Logger } from 'pino'
import type { SignText } from '../ground/crypto.ts'
import { pause } from '../ground/pause.ts'
import type { ProxySettings } from '../ground/proxy.ts'
import { Connection, type ConnectionEnd } from './connection.ts'
import type { HelloContent } from './handshake.ts'

const BACKOFF_BASE_MS = 250
const BACKOFF_CAP_MS = 8000
/** A session shorter than this does not count as a success: a server that drops at once is not asked at once again. */
const STEADY_MS = 5000

export type Welcome = Extract<ServerFrame, { type: 'welcome' }>
export type Heartbeat = Omit<Extract<AgentFrame, { type: 'heartbeat' }>, 'type'>
/** Rejections after which another try makes no sense. */
export type FinalReject = Extract<RejectCode, 'superseded' | 'quarantined' | 'revoked' | 'unknown_agent'>
const FINAL: readonly string[] = ['superseded', 'quarantined', 'revoked', 'unknown_agent']

export interface ChannelOptions {
  serverUrl: string
  agentId: string
  serverId: string
  bootCounter: number
  /** Random, one per start of the process. */
  bootId: string
  sign: SignText
  /** What is known of the server's keys now. */
  keys: () => KnownKeys
  /** Of a server that proved itself; resolves when what is new is on disk. */
  onKeys: (offered: readonly KeyLink[]) => Promise<unknown>
  /** Asked at the moment of `hello`, so that the inventory is of that moment. */
  hello: () => HelloContent
  heartbeat: () => Heartbeat
  onWelcome: (welcome: Welcome) => void
  onFrame: (frame: ServerFrame) => void
  onDisconnect: () => void
  proxy: ProxySettings
  log: Logger
  clock: () => number
  random: () => number
  /** How long a rejection that may be a mistake is tried again. A server restored from a backup may not know us for a while. */
  patience?: { tries: number; ms: number }
}

/** The one connection to the server: opened again for ever, until stopped or finally rejected. */
export interface Channel {
  start(): void
  /** False when there is no session. */
  send(frame: AgentFrame): boolean
  sendBulk(bytes: Uint8Array): Promise<void>
  readonly isOpen: boolean
  /** Ends the session that is there; the next one begins as after any other end. */
  redial(): void
  stop(): Promise<void>
  /** Resolves with the final rejection, or undefined after `stop`. */
  readonly ended: Promise<FinalReject | undefined>
}

export function createChannel(options: ChannelOptions): Channel {
  return new ReconnectingChannel(options)
}

class ReconnectingChannel implements Channel {
  readonly ended: Promise<FinalReject | undefined>
  readonly #options: ChannelOptions
  readonly #stopping = new AbortController()
  #begin: () => void = () => undefined
  #connection: Connection | undefined
  #rejections: { since: number; count: number } | undefined

  constructor(options: ChannelOptions) {
    this.#options = options
    this.ended = new Promise<void>((resolve) => (this.#begin = resolve)).then(() => this.#run())
  }

  start(): void {
    this.#begin()
  }

  get isOpen(): boolean {
    return this.#connection?.isOpen ?? false
  }

  send(frame: AgentFrame): boolean {
    return this.#connection?.send(frame) ?? false
  }

  async sendBulk(bytes: Uint8Array): Promise<void> {
    await this.#connection?.sendBulk(bytes)
  }

  redial(): void {
    this.#connection?.close('the agent has a new key')
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#begin()
    this.#connection?.close('the agent stops')
    await this.ended
  }

  async #run(): Promise<FinalReject | undefined> {
    const { clock, log, random } = this.#options
    for (let attempt = 0; !this.#stopping.signal.aborted; attempt++) {
      const began = clock()
      const connection = new Connection(this.#options)
      this.#connection = connection
      const end = await connection.ended
      this.#connection = undefined
      if (end.welcomed) this.#options.onDisconnect()
      if (this.#stopping.signal.aborted) break
      const final = this.#finalRejection(end)
      if (final) return final
      if (end.welcomed && clock() - began >= STEADY_MS) attempt = 0
      const delay = fullJitter(attempt, random(), BACKOFF_BASE_MS, BACKOFF_CAP_MS)
      log.warn({ reason: end.message, attempt, retryInMs: delay }, 'no connection to the server')
      await pause(delay, this.#stopping.signal)
    }
    return undefined
  }

  /** What an unproven server says, and that nobody knows us, is believed only when it is said again and again. */
  #finalRejection(end: ConnectionEnd): FinalReject | undefined {
    if (end.welcomed) this.#rejections = undefined
    const code = end.rejected
    if (code === undefined || !FINAL.includes(code)) return undefined
    const final = code as FinalReject
    if (end.verified && final !== 'unknown_agent') return final
    const { tries, ms } = this.#options.patience ?? { tries: 5, ms: 60_000 }
    const now = this.#options.clock()
    this.#rejections ??= { since: now, count: 0 }
    this.#rejections.count += 1
    return this.#rejections.count >= tries && now - this.#rejections.since >= ms ? final : undefined
  }
}
