import type { JobKind, SignedDocument } from '@tenon/core'
import type { Db } from '../store/database.ts'

/** A job as its agent gets it. */
export interface GivenJob {
  id: string
  fence: number
  document: SignedDocument
}

/** An agent that is connected to this process, and its slots for jobs. */
export interface SlotHost {
  readonly agentId: string
  readonly sessionId: string
  /** Slots that nobody in the queue waits for. Jobs in `leaving` count as gone. */
  free(leaving: ReadonlySet<string>): number
  /** Whether the agent has all of these features. */
  can(requires: readonly string[]): boolean
  /** Keeps a slot. False when there is none, or when others may wait for it. */
  reserve(jobId: string, kind: JobKind, leaving: ReadonlySet<string>): boolean
  giveBack(jobId: string): void
  give(job: GivenJob): void
  /** It may have been given jobs that this process does not know of: it must connect again and say what it holds. */
  doubt(): void
}

/** The agents of this process by pool. A job that is made here for one of them needs no way through the queue. */
export interface Slots {
  join(pool: string, host: SlotHost): () => void
  /** For one transaction. */
  open(): TakenSlots
}

/** The slots that one change takes. They are its own until it ends, in one of three ways. */
export interface TakenSlots {
  /** Locks the agents that may get jobs of these pools, one pool per job, if they are still connected here. */
  confirm(db: Db, pools: readonly string[]): Promise<void>
  /** This change ends the job, so that its slot is free for another. */
  leave(jobId: string): void
  /** Who gets the job. Undefined: it goes into the queue. */
  take(pool: string, wanted: Wanted, job: GivenJob): string | undefined
  committed(): void
  rolledBack(): void
  /** The connection broke: nobody knows whether it was committed. */
  inDoubt(): void
}

export interface Wanted {
  kind: JobKind
  requires: readonly string[]
}
