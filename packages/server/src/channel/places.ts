import { laneOf, type JobKind } from '@tenon/core'
import type { Claim } from '../jobs/claim.ts'

/** How many jobs an agent takes at once; where `interactiveSlots` is 0, all kinds share `slots`. */
export interface Places {
  slots: number
  interactiveSlots: number
}

/** The places of one lane. */
export interface Row {
  readonly lane: Claim['lane']
  readonly slots: number
  /** Whether jobs may be in the queue: they go before new ones. */
  isAwaited: boolean
}

/** Which jobs have which places of an agent. */
export class Seating {
  readonly rows: readonly Row[]
  readonly #held: Map<string, Row>

  constructor(places: Places, heldAtFirst: readonly string[]) {
    const rows = rowsOf(places)
    this.rows = rows
    // What the session began with counts as ordinary: the agent itself keeps its lanes apart.
    this.#held = new Map(heldAtFirst.map((jobId) => [jobId, rows[0]!]))
  }

  get size(): number {
    return this.#held.size
  }

  rowFor(kind: JobKind): Row {
    return this.rows.find(({ lane }) => lane === 'any' || lane === laneOf(kind))!
  }

  /** Jobs in `leaving` count as gone. */
  freeIn(row: Row, leaving?: ReadonlySet<string>): number {
    let free = row.slots
    for (const [jobId, taken] of this.#held) if (taken === row && !leaving?.has(jobId)) free -= 1
    return free
  }

  hold(jobId: string, row: Row): void {
    this.#held.set(jobId, row)
  }

  /** Unless it has a place already. */
  holdAnew(jobId: string): void {
    if (!this.#held.has(jobId)) this.#held.set(jobId, this.rows[0]!)
  }

  /** The row in which a place is free now. */
  leave(jobId: string): Row | undefined {
    const row = this.#held.get(jobId)
    this.#held.delete(jobId)
    return row
  }
}

function rowsOf({ slots, interactiveSlots }: Places): Row[] {
  if (interactiveSlots === 0) return [{ lane: 'any', slots, isAwaited: true }]
  return [
    { lane: 'ordinary', slots, isAwaited: true },
    { lane: 'interactive', slots: interactiveSlots, isAwaited: true },
  ]
}
