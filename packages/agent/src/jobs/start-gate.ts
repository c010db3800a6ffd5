import { describeShortage, documentDigest, type Holder, type JobManifest } from '@tenon/core'
import type { AgentFrame, AgentVerdict } from '@tenon/protocol'
import type { Logger } from 'pino'
import { sha256, type SignText } from '../ground/crypto.ts'
import type { JournalEntry } from '../journal/journal-entry.ts'
import type { JobRecord, JournalState } from '../journal/journal-state.ts'
import type { Journal } from '../journal/journal.ts'
import { holdOf, lastStartOf, type Hold, type Holds } from './hold.ts'
import type { Slots } from './slots.ts'

export interface StartGateContext {
  agentId: string
  sign: SignText
  journal: Journal<JournalEntry>
  state: JournalState
  slots: Slots
  holds: Holds
  /** By how much the clocks of agent and server may differ. */
  skewMs: number
  send: (frame: AgentFrame) => boolean
  clock: () => number
}

/**
 * What a job passes before it starts: the customer's word, its last moment to start, and a free slot. One that is too
 * late stays, so that the server can be told of it, until the server withdraws it or lets it start for longer.
 */
export class StartGate {
  readonly #context: StartGateContext
  readonly #record: JobRecord
  readonly #manifest: JobManifest
  readonly #log: Logger
  #waitsFor: string | undefined
  #told: string | undefined
  #isSaidLate = false

  constructor(context: StartGateContext, record: JobRecord, manifest: JobManifest, log: Logger) {
    this.#context = context
    this.#record = record
    this.#manifest = manifest
    this.#log = log
  }

  /** Resolves false when the signal came first; with no slot there is nothing to give back. */
  async pass(holder: Holder, signal: AbortSignal): Promise<boolean> {
    for (;;) {
      if (!(await this.#untilAllowed(signal)) || !(await this.#takeSlot(holder, signal))) return false
      if (!this.#isLate() && !holdOf(this.#context.state)) return true
      this.#context.slots.release(holder.jobId)
    }
  }

  /** Told in each session: the one before may have been cut before. */
  tellState(): void {
    const { send } = this.#context
    const { held, startedAt, finished } = this.#record
    if (held && startedAt === null && !finished)
      send({ type: 'job.held', ...this.#id, verdict: held.verdict })
    if (this.#waitsFor !== undefined)
      send({ type: 'job.progress', ...this.#id, message: this.#waitsFor, fraction: null })
  }

  get #id(): { jobId: string; fence: number } {
    return { jobId: this.#record.jobId, fence: this.#record.fence }
  }

  async #untilAllowed(signal: AbortSignal): Promise<boolean> {
    const { state, holds } = this.#context
    for (let hold = holdOf(state); hold || this.#isLate(); hold = holdOf(state)) {
      if (signal.aborted) return false
      if (hold) await this.#hold(hold)
      this.#noteLate()
      await holds.wait(signal, this.#isLate() ? Infinity : this.#msToStart())
    }
    return true
  }

  /** Told to the server in signed words; what it was told already is not said anew. */
  async #hold(hold: Hold): Promise<void> {
    const { journal, sign, agentId, clock } = this.#context
    if (this.#told === hold.reason) return
    this.#told = hold.reason
    const at = new Date(clock()).toISOString()
    const manifestDigest = documentDigest(this.#record.document.text, sha256)
    const since = this.#record.held?.since ?? at
    const verdict: AgentVerdict = {
      agentId,
      ...this.#id,
      manifestDigest,
      answer: 'not_now',
      ...hold,
      since,
      at,
    }
    await journal.append({ type: 'held', ...this.#id, since, verdict: sign('agent-verdict/1', verdict) })
    this.#log.info({ rule: hold.rule }, `job held: ${hold.reason}`)
    this.tellState()
  }

  #isLate(): boolean {
    return this.#record.held !== null && this.#msToStart() <= 0
  }

  #msToStart(): number {
    const { skewMs, clock } = this.#context
    return lastStartOf(this.#record, this.#manifest, skewMs) - clock()
  }

  #noteLate(): void {
    if (this.#isLate() && !this.#isSaidLate)
      this.#log.warn('a held job may not start any more; it waits for the word of the server')
    this.#isSaidLate = this.#isLate()
  }

  /** While it waits the server is told for what, so that whoever asks can be told. */
  async #takeSlot(holder: Holder, signal: AbortSignal): Promise<boolean> {
    const { slots, send } = this.#context
    let said = ''
    const say = (message: string) => {
      if (message !== said) send({ type: 'job.progress', ...this.#id, message, fraction: null })
      said = message
    }
    const isIn = await slots.acquire(
      holder,
      signal,
      (shortage, ahead) => {
        this.#waitsFor = describeShortage(shortage, ahead)
        say(this.#waitsFor)
      },
      this.#record.held !== null,
    )
    this.#waitsFor = undefined
    if (isIn && said !== '') say('starts')
    return isIn
  }
}
