import type { ActionOn, Json } from '@tenon/core'
import type { AGENT_EVENTS, AgentEvent, AgentFrame } from '@tenon/protocol'
import type { SignText } from '../ground/crypto.ts'
import type { JournalEntry } from './journal-entry.ts'
import type { JournalState } from './journal-state.ts'
import type { Journal } from './journal.ts'

export interface EventOutboxOptions {
  agentId: string
  journal: Journal<JournalEntry>
  state: JournalState
  sign: SignText
  clock: () => number
  send: (frame: AgentFrame) => boolean
}

/** About the agent itself, or about a job: the catalogue of the audit says which. */
type Raised = (typeof AGENT_EVENTS)[number]

/** What the agent did or saw that is no job: signed, numbered, kept on disk until the server took it. */
export class EventOutbox {
  readonly #options: EventOutboxOptions
  /** A number that is not on disk may be given again after a crash: nobody hears it before. */
  readonly #unstored = new Set<number>()

  constructor(options: EventOutboxOptions) {
    this.#options = options
  }

  async raise<A extends Raised>(
    action: A,
    jobId: A extends ActionOn<'job'> ? string : null,
    details: { [key: string]: Json },
  ): Promise<void> {
    const { agentId, journal, state, sign, clock, send } = this.#options
    const at = new Date(clock()).toISOString()
    const event: AgentEvent = { agentId, seq: state.nextEvent, at, action, jobId, details }
    const signed = sign('agent-event/1', event)
    this.#unstored.add(event.seq)
    await journal.append({ type: 'event', seq: event.seq, signed })
    this.#unstored.delete(event.seq)
    send({ type: 'event', event: signed })
  }

  /** At the start of a session, and again for what stays without an answer. */
  sendAll(): void {
    const { state, send } = this.#options
    for (const [seq, event] of state.events) {
      if (!this.#unstored.has(seq)) send({ type: 'event', event })
    }
  }

  acked(seq: number): void {
    if (this.#options.state.events.has(seq)) this.#options.journal.note({ type: 'event.acked', seq })
  }

  /** The server has everything up to `seq`; numbers below it would be taken for repeats. */
  welcomed(seq: number): void {
    const { journal, state } = this.#options
    for (const known of state.events.keys()) if (known <= seq) this.acked(known)
    if (state.nextEvent <= seq) journal.note({ type: 'event.next', seq: seq + 1 })
  }
}
