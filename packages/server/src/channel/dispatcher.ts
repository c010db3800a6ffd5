import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ServerFrame } from '@tenon/protocol'
import type { Context } from '../context.ts'
import type { OpenedSession } from '../operations/open-session.ts'
import type { JobDesk } from './job-desk.ts'

/** Gives a connected agent as many jobs as it has free slots. */
export interface Dispatcher {
  /** Something may be in the queue. Calls during a claim are folded into one more. */
  nudge(): void
  /** A slot is free again. */
  release(jobId: string): void
  stop(): void
  readonly running: number
}

export function createDispatcher(
  context: Context,
  desk: JobDesk,
  agent: Pick<OpenedSession, 'pool' | 'held' | 'sessionId'>,
  agentId: string,
  slots: number,
  send: (frame: ServerFrame) => void,
): Dispatcher {
  const held = new Set(agent.held)
  let claiming = false
  let again = false
  let stopped = false

  async function claim(): Promise<void> {
    claiming = true
    try {
      do {
        // One commit frees a slot and fills the queue: both hints are heard in one turn, and make one claim.
        await nextTurn()
        again = false
        const limit = slots - held.size
        if (limit <= 0 || stopped) break
        const { pool, sessionId } = agent
        for (const job of await desk.claim({ agentId, sessionId, pool, limit })) {
          held.add(job.id)
          send({ type: 'job.assign', manifest: job.document })
        }
      } while (again)
    } finally {
      claiming = false
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
