import { FEATURE_NAMES, signingBytes, type AuditHead } from '@tenon/core'
import { PRODUCT_VERSION, type AgentFrame, type ServerFrame } from '@tenon/protocol'
import type { Logger } from 'pino'
import type { Heartbeat, Welcome } from './channel/channel.ts'
import type { HelloContent } from './channel/handshake.ts'
import type { Identity } from './enrolment/identity.ts'
import { messageOf } from './ground/errors.ts'
import type { CredentialRequests } from './job-api/credential-requests.ts'
import type { JobRunner } from './jobs/runner.ts'
import { compareHeads } from './journal/audit-head.ts'
import type { EventOutbox } from './journal/event-outbox.ts'
import type { JournalEntry } from './journal/journal-entry.ts'
import type { JournalState } from './journal/journal-state.ts'
import type { Journal } from './journal/journal.ts'
import type { LogShipper } from './journal/log-shipper.ts'
import type { InstallStore } from './store/install-store.ts'
import { setSecret, type Sealing } from './store/sealing.ts'

const RESEND_EVENTS_MS = 15_000

export interface SessionContext {
  identity: Identity
  slots: number
  runtime: HelloContent['runtime']
  journal: Journal<JournalEntry>
  state: JournalState
  runner: JobRunner
  shipper: LogShipper
  events: EventOutbox
  credentials: CredentialRequests
  /** Install agents only. */
  secrets: { store: InstallStore; sealing: Sealing } | undefined
  send: (frame: AgentFrame) => boolean
  clock: () => number
  onFatal: (error: unknown) => void
  log: Logger
}

/** What the agent says and hears in a session with the server: each frame goes to the part it is for. */
export class Session {
  readonly #context: SessionContext
  #eventsSentAt = 0
  #reportedMismatch = ''
  #secretsStored: Promise<void> = Promise.resolve()
  #connectedSince: string | null = null

  constructor(context: SessionContext) {
    this.#context = context
  }

  get connectedSince(): string | null {
    return this.#connectedSince
  }

  hello(): HelloContent {
    const { identity, slots, runtime, runner, state } = this.#context
    return {
      version: PRODUCT_VERSION,
      features: FEATURE_NAMES,
      runtime,
      slots,
      inventory: runner.inventory(),
      auditHead: state.head,
      recipient: this.#recipient(identity),
    }
  }

  heartbeat(): Heartbeat {
    const { runner, shipper, state, events, clock } = this.#context
    runner.resend()
    if (clock() - this.#eventsSentAt >= RESEND_EVENTS_MS) {
      this.#eventsSentAt = clock()
      events.sendAll()
    }
    return { running: runner.running, outboxBytes: shipper.unacknowledgedBytes, dropped: state.dropped }
  }

  welcomed(welcome: Welcome): void {
    const { runner, shipper, events, credentials, clock, log } = this.#context
    log.info({ sessionId: welcome.sessionId, jobs: welcome.verdicts.length }, 'connected to the server')
    this.#connectedSince = new Date(clock()).toISOString()
    this.#compareHead(welcome.auditHead)
    events.welcomed(welcome.eventSeq)
    this.#eventsSentAt = clock()
    events.sendAll()
    runner.welcomed(welcome)
    shipper.connected()
    credentials.connected()
  }

  disconnected(): void {
    this.#connectedSince = null
    this.#context.shipper.disconnected()
  }

  received(frame: ServerFrame): void {
    const { runner, shipper, events, credentials, log } = this.#context
    switch (frame.type) {
      case 'job.assign':
        return this.#inBackground(runner.assign(frame.manifest))
      case 'job.cancel':
        return this.#inBackground(runner.cancel(frame.jobId, frame.fence))
      case 'job.permit':
        return this.#inBackground(runner.permit(frame.permit))
      case 'job.settled':
        this.#keepHead(frame.auditHead)
        return this.#inBackground(runner.settled(frame.jobId, frame.fence))
      case 'log.ack':
        return shipper.ack(frame.stream, frame.offset)
      case 'event.ack':
        this.#keepHead(frame.auditHead)
        return events.acked(frame.seq)
      case 'credential.grant':
        return credentials.granted(frame.requestId, frame.credential)
      case 'credential.refused':
        return credentials.refused(frame.requestId, frame.message)
      case 'secret.deliver':
        return this.#deliverSecret(frame)
      case 'keys':
        return this.#inBackground(this.#pin(frame.keys))
      case 'unsupported':
        return log.warn(
          { frame: frame.frame, said: frame.message },
          'the server does not know a frame of this agent',
        )
      case 'challenge':
      case 'welcome':
      case 'reject':
      case 'heartbeat.ack':
        log.warn({ type: frame.type }, 'frame of the server came out of order, ignored')
    }
  }

  #recipient(identity: Identity): HelloContent['recipient'] {
    const { secrets } = this.#context
    if (!secrets) return null
    const { recipient } = secrets.sealing
    const bytes = signingBytes('agent-recipient/1', { agentId: identity.agentId, recipient })
    return { age: recipient, signature: identity.key.sign(bytes) }
  }

  /** A head that is behind the kept one, or differs from it, means that the server's history was altered. */
  #compareHead(offered: AuditHead | null): void {
    const { state, events, log } = this.#context
    const verdict = compareHeads(state.head, offered)
    if (verdict !== 'cut' && verdict !== 'changed') return this.#keepHead(offered)
    const details = { verdict, kept: { ...state.head }, offered: { ...offered } }
    const mark = JSON.stringify(details)
    if (mark === this.#reportedMismatch) return
    this.#reportedMismatch = mark
    log.error(details, "the server's audit chain does not contain what it acknowledged before")
    this.#inBackground(events.raise('agent.audit_mismatch', null, details))
  }

  #keepHead(head: AuditHead | null): void {
    const { state, journal } = this.#context
    if (head && compareHeads(state.head, head) === 'newer') journal.note({ type: 'head', head })
  }

  async #pin(links: Extract<ServerFrame, { type: 'keys' }>['keys']): Promise<void> {
    const { identity, clock, log } = this.#context
    if (!(await identity.learnKeys(links, clock()))) return
    const { pinned, ended } = identity.serverKeys
    log.info({ keys: [...pinned.keys()], ended: Object.fromEntries(ended) }, 'the server changed its keys')
  }

  /** One after the other, so that of two values for one name the later one stays. */
  #deliverSecret(frame: Extract<ServerFrame, { type: 'secret.deliver' }>): void {
    this.#secretsStored = this.#secretsStored.then(async () => {
      const { secretId } = frame
      try {
        const { secrets } = this.#context
        if (!secrets) throw new Error('This agent has no install, so it keeps no secrets.')
        const value = await secrets.sealing.unseal(Buffer.from(frame.ciphertext, 'base64'))
        await setSecret(secrets.store, frame.name, value)
        this.#context.send({ type: 'secret.stored', secretId, ok: true, message: '' })
      } catch (error) {
        this.#context.log.error({ err: error, name: frame.name }, 'a secret could not be stored')
        this.#context.send({ type: 'secret.stored', secretId, ok: false, message: messageOf(error) })
      }
    })
  }

  #inBackground(work: Promise<void>): void {
    work.catch((error: unknown) => this.#context.onFatal(error))
  }
}
