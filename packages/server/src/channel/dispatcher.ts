import type { ServerFrame } from '@tenon/protocol'
import type { Context } from '../context.ts'
import type { OpenedSession } from '../operations/open-session.ts'
import type { Claim } from '../store/jobs.ts'
import type { JobDesk } from './job-desk.ts'

/** Gives a connected agent as many jobs as it has free places, those of the interactive kinds apart. */
export interface Dispatcher {
  /** Something may be in the queue. Calls during a claim are folded into one more. */
  nudge(): void
  /** A slot is free again. */
  release(jobId: string): void
  stop(): void
  readonly running: number
}

/** How many jobs an agent takes at once; where `interactiveSlots` is 0, all kinds share `slots`. */
export interface Places {
  slots: number
  interactiveSlots: number
}

export function createDispatcher(
  context: Context,
  desk: JobDesk,
  agent: Pick<OpenedSession, 'pool' | 'held' | 'sessionId'>,
  agentId: string,
  places: Places,
  send: (frame: ServerFrame) => void,
): Dispatcher {
  const lanes = lanesOf(places)
  // What the session began with counts as ordinary: the agent itself keeps its lanes apart.
  const held = new Map(agent.held.map((jobId) => [jobId, lanes[0]!.lane]))
  let claiming = false
  let again = false
  let stopped = false

  async function claim(): Promise<void> {
    claiming = true
    try {
      do {
        again = false
        for (const { lane, slots } of lanes) await claimIn(lane, slots)
      } while (again)
    } finally {
      claiming = false
    }
  }

  async function claimIn(lane: Claim['lane'], slots: number): Promise<void> {
    const limit = slots - [...held.values()].filter((taken) => taken === lane).length
    if (limit <= 0 || stopped) return
    const { pool, sessionId } = agent
    for (const job of await desk.claim({ agentId, sessionId, pool, lane, limit })) {
      held.set(job.id, lane)
      send({ type: 'job.assign', manifest: job.document })
    }
  }

  const dispatcher: Dispatcher = {
    nudge() {
      again = true
      if (claiming || stopped) return
      claim().catch((error: unknown) =>
        context.log.warn({ err: error, agentId }, 'no job could be claimed now; the poll tries again'),
      )
    },
    release(jobId) {
      if (held.delete(jobId)) dispatcher.nudge()
    },
    stop: () => void (stopped = true),
    get running() {
      return held.size
    },
  }
  return dispatcher
}

function lanesOf({ slots, interactiveSlots }: Places): { lane: Claim['lane']; slots: number }[] {
  if (interactiveSlots === 0) return [{ lane: 'any', slots }]
  return [
    { lane: 'ordinary', slots },
    { lane: 'interactive', slots: interactiveSlots },
  ]
}
