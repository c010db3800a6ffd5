import { setImmediate as nextTurn } from 'node:timers/promises'
import type { JobKind } from '@tenon/core'
import type { ServerFrame } from '@tenon/protocol'
import type { OpenedSession } from '../agents/connect.ts'
import type { Context } from '../context.ts'
import type { GivenJob, SlotHost } from '../ground/slots.ts'
import type { Batches } from './batches.ts'
import { AgentSlots, type LaneSlots, type SlotCounts } from './slots.ts'

/** The agent's end of the connection, as far as jobs need it. */
export interface Wire {
  send(frame: ServerFrame): void
  /** Ends the connection; the agent dials again. */
  redial(message: string): void
}

/** Gives a connected agent as many jobs as it has free slots, those of the interactive kinds apart. */
export class Dispatcher implements SlotHost {
  readonly #context: Context
  readonly #batches: Batches
  readonly #agent: DispatchedAgent
  readonly #wire: Wire
  readonly #slots: AgentSlots
  readonly #silent = new Map<string, { job: GivenJob; givenAt: number }>()
  #claiming = false
  #again = false
  #stopped = false

  constructor(context: Context, batches: Batches, agent: DispatchedAgent, counts: SlotCounts, wire: Wire) {
    this.#context = context
    this.#batches = batches
    this.#agent = agent
    this.#wire = wire
    this.#slots = new AgentSlots(counts, agent.held)
  }

  get agentId(): string {
    return this.#agent.agentId
  }

  get sessionId(): string {
    return this.#agent.sessionId
  }

  get running(): number {
    return this.#slots.size
  }

  /** Something may be in the queue. Calls during a claim are folded into one more. */
  nudge(): void {
    for (const lane of this.#slots.lanes) lane.isAwaited = true
    this.#wake()
  }

  free(leaving: ReadonlySet<string>): number {
    const open = this.#slots.lanes.filter((lane) => this.#isOpen(lane))
    return open.reduce((sum, lane) => sum + Math.max(0, this.#slots.freeIn(lane, leaving)), 0)
  }

  can(requires: readonly string[]): boolean {
    return requires.every((feature) => this.#agent.features.includes(feature))
  }

  reserve(jobId: string, kind: JobKind, leaving: ReadonlySet<string>): boolean {
    const lane = this.#slots.laneFor(kind)
    const isFree = this.#isOpen(lane) && this.#slots.freeIn(lane, leaving) > 0
    if (isFree) this.#slots.hold(jobId, lane)
    return isFree
  }

  giveBack(jobId: string): void {
    if (this.#slots.leave(jobId)?.isAwaited) this.#wake()
  }

  doubt(): void {
    this.#wire.redial('the database broke while a job was given to this agent; connect again')
  }

  /** The agent has said something about a job: it has read its manifest. */
  heard(jobId: string): void {
    this.#silent.delete(jobId)
  }

  /** Jobs that the agent has said nothing about since that moment, in milliseconds since the epoch. */
  unheard(since: number): GivenJob[] {
    return [...this.#silent.values()].filter((one) => one.givenAt < since).map(({ job }) => job)
  }

  isUnheard(jobId: string): boolean {
    return this.#silent.has(jobId)
  }

  /** Gives a job to the agent, for the first time or again. */
  give(job: GivenJob): void {
    this.#silent.set(job.id, { job, givenAt: this.#context.now() })
    this.#wire.send({ type: 'job.assign', manifest: job.document })
  }

  /** One that was held had no slot, and begins now. */
  runs(jobId: string): void {
    this.#slots.holdAnew(jobId)
  }

  /** A slot is free again. */
  release(jobId: string): void {
    this.#silent.delete(jobId)
    this.giveBack(jobId)
  }

  stop(): void {
    this.#stopped = true
  }

  #isOpen(lane: LaneSlots): boolean {
    return !this.#claiming && !this.#stopped && !lane.isAwaited
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
        await Promise.all(this.#slots.lanes.map((lane) => this.#claimIn(lane)))
      } while (this.#again)
    } finally {
      this.#claiming = false
    }
  }

  async #claimIn(lane: LaneSlots): Promise<void> {
    const limit = this.#slots.freeIn(lane)
    if (limit <= 0 || this.#stopped || !lane.isAwaited) return
    const { agentId, sessionId, pool, features } = this.#agent
    lane.isAwaited = false
    try {
      const { jobs, isMore } = await this.#batches.claim({
        agentId,
        sessionId,
        pool,
        features,
        lane: lane.lane,
        limit,
      })
      lane.isAwaited ||= isMore
      for (const job of jobs) {
        this.#slots.hold(job.id, lane)
        this.give(job)
      }
    } catch (error) {
      lane.isAwaited = true
      throw error
    }
  }
}

type DispatchedAgent = Pick<OpenedSession, 'pool' | 'held' | 'sessionId' | 'features'> & { agentId: string }
