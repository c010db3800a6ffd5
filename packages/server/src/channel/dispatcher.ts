import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ServerFrame } from '@tenon/protocol'
import type { Context } from '../context.ts'
import type { OpenedSession } from '../operations/open-session.ts'
import type { Claim, ClaimedJob } from '../store/jobs.ts'
import type { JobDesk } from './job-desk.ts'

/** Gives a connected agent as many jobs as it has free places, those of the interactive kinds apart. */
export interface Dispatcher {
  /** Something may be in the queue. Calls during a claim are folded into one more. */
  nudge(): void
  /** The agent has said something about a job: it has read its manifest. */
  heard(jobId: string): void
  /** Jobs that the agent has said nothing about since that moment, in milliseconds since the epoch. */
  unheard(since: number): ClaimedJob[]
  /** Gives a job to the agent, for the first time or again. */
  give(job: ClaimedJob): void
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
  const silent = new Map<string, { job: ClaimedJob; givenAt: number }>()
  let claiming = false
  let again = false
  let stopped = false

  async function claim(): Promise<void> {
    claiming = true
    try {
      do {
        // One commit frees a slot and fills the queue: both hints of a busy agent make one claim.
        if (held.size > 0) await nextTurn()
        again = false
        // Both in one turn, so that they make one statement.
        await Promise.all(lanes.map(({ lane, slots }) => claimIn(lane, slots)))
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
      dispatcher.give(job)
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
    heard: (jobId) => void silent.delete(jobId),
    unheard: (since) => [...silent.values()].filter((one) => one.givenAt < since).map(({ job }) => job),
    give(job) {
      silent.set(job.id, { job, givenAt: context.now() })
      send({ type: 'job.assign', manifest: job.document })
    },
    release(jobId) {
      silent.delete(jobId)
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
