import { laneOf, type JobKind } from '@tenon/core'
import type { Claim } from '../jobs/claim.ts'

/** How many jobs an agent takes at once; where `interactiveSlots` is 0, all kinds share `slots`. */
export interface SlotCounts {
  slots: number
  interactiveSlots: number
}

/** The slots of one lane. */
export interface LaneSlots {
  readonly lane: Claim['lane']
  readonly slots: number
  /** Whether jobs may be in the queue: they go before new ones. */
  isAwaited: boolean
}

/** Which jobs have which slots of an agent. */
export class AgentSlots {
  readonly lanes: readonly LaneSlots[]
  readonly #held: Map<string, LaneSlots>

  constructor(counts: SlotCounts, heldAtFirst: readonly string[]) {
    const lanes = lanesOf(counts)
    this.lanes = lanes
    // What the session began with counts as ordinary: the agent itself keeps its lanes apart.
    this.#held = new Map(heldAtFirst.map((jobId) => [jobId, lanes[0]!]))
  }

  get size(): number {
    return this.#held.size
  }

  laneFor(kind: JobKind): LaneSlots {
    return this.lanes.find(({ lane }) => lane === 'any' || lane === laneOf(kind))!
  }

  /** Jobs in `leaving` count as gone. */
  freeIn(lane: LaneSlots, leaving?: ReadonlySet<string>): number {
    let free = lane.slots
    for (const [jobId, taken] of this.#held) if (taken === lane && !leaving?.has(jobId)) free -= 1
    return free
  }

  hold(jobId: string, lane: LaneSlots): void {
    this.#held.set(jobId, lane)
  }

  /** Unless it has a slot already. */
  holdAnew(jobId: string): void {
    if (!this.#held.has(jobId)) this.#held.set(jobId, this.lanes[0]!)
  }

  /** The lane in which a slot is free now. */
  leave(jobId: string): LaneSlots | undefined {
    const lane = this.#held.get(jobId)
    this.#held.delete(jobId)
    return lane
  }
}

function lanesOf({ slots, interactiveSlots }: SlotCounts): LaneSlots[] {
  if (interactiveSlots === 0) return [{ lane: 'any', slots, isAwaited: true }]
  return [
    { lane: 'ordinary', slots, isAwaited: true },
    { lane: 'interactive', slots: interactiveSlots, isAwaited: true },
  ]
}
