import { setImmediate as nextTurn } from 'node:timers/promises'
import type { JobKind } from '@tenon/core'
import type { ServerFrame } from '@tenon/protocol'
import type { Context } from '../context.ts'
import type { OpenedSession } from '../agents/open-session.ts'
import type { SeatHost } from '../jobs/slots.ts'
import type { ClaimedJob } from '../jobs/claim.ts'
import type { JobDesk } from './job-desk.ts'
import { Seating, type Places, type Row } from './places.ts'

/** The agent's end of the connection, as far as jobs need it. */
export interface Wire {
  send(frame: ServerFrame): void
  /** Ends the connection; the agent dials again. */
  redial(message: string): void
}

/** Gives a connected agent as many jobs as it has free places, those of the interactive kinds apart. */
export class Dispatcher implements SeatHost {
  readonly #context: Context
  readonly #desk: JobDesk
  readonly #agent: DispatchedAgent
  readonly #wire: Wire
  readonly #seating: Seating
  readonly #silent = new Map<string, { job: ClaimedJob; givenAt: number }>()
  #claiming = false
  #again = false
  #stopped = false

  constructor(context: Context, desk: JobDesk, agent: DispatchedAgent, places: Places, wire: Wire) {
    this.#context = context
    this.#desk = desk
    this.#agent = agent
    this.#wire = wire
    this.#seating = new Seating(places, agent.held)
  }

  get agentId(): string {
    return this.#agent.agentId
  }

  get sessionId(): string {
    return this.#agent.sessionId
  }

  get running(): number {
    return this.#seating.size
  }

  /** Something may be in the queue. Calls during a claim are folded into one more. */
  nudge(): void {
    for (const row of this.#seating.rows) row.isAwaited = true
    this.#wake()
  }

  free(leaving: ReadonlySet<string>): number {
    const open = this.#seating.rows.filter((row) => this.#isOpen(row))
    return open.reduce((sum, row) => sum + Math.max(0, this.#seating.freeIn(row, leaving)), 0)
  }

  can(requires: readonly string[]): boolean {
    return requires.every((feature) => this.#agent.features.includes(feature))
  }

  reserve(jobId: string, kind: JobKind, leaving: ReadonlySet<string>): boolean {
    const row = this.#seating.rowFor(kind)
    const isFree = this.#isOpen(row) && this.#seating.freeIn(row, leaving) > 0
    if (isFree) this.#seating.hold(jobId, row)
    return isFree
  }

  giveBack(jobId: string): void {
    if (this.#seating.leave(jobId)?.isAwaited) this.#wake()
  }

  doubt(): void {
    this.#wire.redial('the database broke while a job was given to this agent; connect again')
  }

  /** The agent has said something about a job: it has read its manifest. */
  heard(jobId: string): void {
    this.#silent.delete(jobId)
  }

  /** Jobs that the agent has said nothing about since that moment, in milliseconds since the epoch. */
  unheard(since: number): ClaimedJob[] {
    return [...this.#silent.values()].filter((one) => one.givenAt < since).map(({ job }) => job)
  }

  isUnheard(jobId: string): boolean {
    return this.#silent.has(jobId)
  }

  /** Gives a job to the agent, for the first time or again. */
  give(job: ClaimedJob): void {
    this.#silent.set(job.id, { job, givenAt: this.#context.now() })
    this.#wire.send({ type: 'job.assign', manifest: job.document })
  }

  /** One that was held had no slot, and begins now. */
  runs(jobId: string): void {
    this.#seating.holdAnew(jobId)
  }

  /** A slot is free again. */
  release(jobId: string): void {
    this.#silent.delete(jobId)
    this.giveBack(jobId)
  }

  stop(): void {
    this.#stopped = true
  }

  #isOpen(row: Row): boolean {
    return !this.#claiming && !this.#stopped && !row.isAwaited
  }

  #wake(): void {
    this.#again = true
    if (this.#claiming || this.#stopped) return
    this.#claim().catch((error: unknown) =>
      this.#context.log.warn(
        { err: error, agentId: this.agentId },
        'no job could be claimed now; the poll tries again',
      ),
    )
  }

  async #claim(): Promise<void> {
    this.#claiming = true
    try {
      do {
        // One commit frees a slot and fills the queue: both hints of a busy agent make one claim.
        if (this.running > 0) await nextTurn()
        this.#again = false
        // Both in one turn, so that they make one statement.
        await Promise.all(this.#seating.rows.map((row) => this.#claimIn(row)))
      } while (this.#again)
    } finally {
      this.#claiming = false
    }
  }

  async #claimIn(row: Row): Promise<void> {
    const limit = this.#seating.freeIn(row)
    if (limit <= 0 || this.#stopped || !row.isAwaited) return
    const { agentId, sessionId, pool, features } = this.#agent
    row.isAwaited = false
    try {
      const { jobs, isMore } = await this.#desk.claim({
        agentId,
        sessionId,
        pool,
        features,
        lane: row.lane,
        limit,
      })
      row.isAwaited ||= isMore
      for (const job of jobs) {
        this.#seating.hold(job.id, row)
        this.give(job)
      }
    } catch (error) {
      row.isAwaited = true
      throw error
    }
  }
}

type DispatchedAgent = Pick<OpenedSession, 'pool' | 'held' | 'sessionId' | 'features'> & { agentId: string }
