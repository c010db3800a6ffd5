import { learnKeys, openSignedText, signingBytes, signKeyChange } from '@tenon/core'
import { keyAccepted, rotateKeyResponse, type RotateKeyRequest } from '@tenon/protocol'
import type { Logger } from 'pino'
import type { AgentConfig } from '../config.ts'
import { fingerprint, verify, type SigningKey } from '../ground/crypto.ts'
import { messageOf } from '../ground/errors.ts'
import { postJson, withSlash } from '../ground/http.ts'
import type { EventOutbox } from '../journal/event-outbox.ts'
import type { Identity } from './identity.ts'

const LOOK_EVERY_MS = 60_000

export interface KeyRotationOptions {
  identity: Identity
  /** `maxKeyAgeMs`: how old a key may become; without it keys change on demand alone. */
  config: Pick<AgentConfig, 'serverUrl' | 'proxy' | 'maxKeyAgeMs'>
  /** What secrets are sealed to; install agents only. */
  recipient: string | null
  events: Pick<EventOutbox, 'raise'>
  /** The session of the key before is to end. */
  onRotated: () => void
  clock: () => number
  log: Logger
}

/**
 * Changes the agent's own key. The next key is on disk before the server hears of it, and takes the place of the one
 * before only on the server's signed word; until then both are kept, and each look asks the server again.
 */
export class KeyRotation {
  readonly #options: KeyRotationOptions
  #timer: NodeJS.Timeout | undefined
  #asking: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(options: KeyRotationOptions) {
    this.#options = options
  }

  /** A change that an earlier life began is ended before the server is dialed with a key that may count no more. */
  async start(): Promise<void> {
    await this.#look()
    if (this.#closed) return
    this.#timer = setInterval(() => void this.#look(), LOOK_EVERY_MS)
    this.#timer.unref()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#asking
  }

  async rotate(): Promise<{ key: string; accepted: boolean }> {
    const { publicKey } = await this.#options.identity.makeNextKey()
    return { key: fingerprint(publicKey), accepted: await this.#finish() }
  }

  async #look(): Promise<void> {
    const { identity, config, clock, log } = this.#options
    const { maxKeyAgeMs: maxAgeMs } = config
    try {
      const isOld = maxAgeMs !== undefined && clock() - (await identity.keyMadeAt()) > maxAgeMs
      if (identity.nextKey || isOld) await this.rotate()
    } catch (error) {
      log.error({ err: error }, 'the key of this agent could not be changed')
    }
  }

  /** One after the other: two at once would both take the next key. */
  #finish(): Promise<boolean> {
    const finished = this.#asking.then(() => this.#ask())
    this.#asking = finished.catch(() => undefined)
    return finished
  }

  async #ask(): Promise<boolean> {
    const { identity, events, onRotated, log } = this.#options
    const next = identity.nextKey
    if (!next || this.#closed) return !next
    const problem = await this.#problemWith(next).catch(messageOf)
    if (problem !== undefined) {
      log.warn({ problem }, 'the server has not accepted the new key of this agent yet; it is asked again')
      return false
    }
    const [from, to] = [fingerprint(identity.key.publicKey), fingerprint(next.publicKey)]
    await events.raise('agent.key_rotated', null, { from, to })
    await identity.takeNextKey(next)
    log.info({ from, to }, 'the key of this agent was changed')
    onRotated()
    return true
  }

  async #problemWith(next: SigningKey): Promise<string | undefined> {
    const { identity, config, clock } = this.#options
    const { serverUrl, proxy } = config
    const url = new URL('agent/v1/rotate-key', withSlash(serverUrl))
    const { status, body } = await postJson(url, this.#requestOf(next), { proxy })
    if (status !== 200) return `it answered ${status}`
    const answer = rotateKeyResponse.safeParse(body).data
    if (!answer) return 'its answer does not have the expected form'
    const { pinned } = learnKeys(identity.serverKeys, answer.keys, verify, clock())
    const key = pinned.get(answer.accepted.keyId ?? '')
    const said = keyAccepted.safeParse(
      key && openSignedText('agent-key-accepted/1', answer.accepted, key, verify),
    ).data
    const isMine = said?.agentId === identity.agentId && said.serverId === identity.serverId
    return isMine && said.publicKey === next.publicKey ? undefined : 'no pinned key signed its answer'
  }

  #requestOf(next: SigningKey): RotateKeyRequest {
    const { identity, recipient } = this.#options
    const { agentId, key } = identity
    const published = signingBytes('agent-recipient/1', { agentId, recipient })
    return {
      change: signKeyChange(agentId, key, next),
      recipientSignature: recipient === null ? null : next.sign(published),
    }
  }
}
