import { type Heard, forgetSession, recordHeard } from '../agents/connections.ts'
import type { Context } from '../context.ts'
import { extendLeases } from '../jobs/leases.ts'
import { createBatcher } from '../store/batch.ts'
import { controlAgents } from './control.ts'
import { giveAgain } from './give-again.ts'
import { createBatches, type Batches } from './batches.ts'
import type { Session } from './session.ts'

const CONTROL_BATCH = 500

/** The agents that are connected to this process, and what is done for all of them at once. */
export interface Sessions {
  readonly batches: Batches
  add(session: Session): void
  remove(session: Session): Promise<void>
  /** A heartbeat arrived: its leases are renewed with everybody else's at the next flush. */
  touch(session: Session, dropped: number): void
  /** Cancels, secrets, or an end of the identity wait for this agent. */
  control(agentId: string): void
  pools(): Map<string, Session[]>
  agentIds(): string[]
  sessionIds(): string[]
  /** After the server's keys changed. */
  announceKeys(): void
  size(): number
  flush(): Promise<void>
  close(): Promise<void>
}

interface Touched extends Heard {
  hasJobs: boolean
}

export function createSessions(context: Context): Sessions {
  const byAgent = new Map<string, { session: Session; off: (() => void)[] }>()
  const touched = new Map<string, Touched>()
  const here = () => [...byAgent.values()].map(({ session }) => session)

  /** A machine that lost its power says no goodbye: jobs given to such a connection would be lost. */
  function endSilent(): void {
    const since = context.now() - context.config.leaseSeconds * 1000
    for (const session of here())
      if (session.heardAt() < since) session.reject('busy', 'nothing was heard for too long; connect again')
  }

  const control = createBatcher<Session, void>(CONTROL_BATCH, async (some) => {
    await controlAgents(context, some)
    return some.map(() => undefined)
  })

  const sessions: Sessions = {
    batches: createBatches(context),
    add(session) {
      const earlier = byAgent.get(session.agentId)
      const off = [
        context.hub.on(`pool:${session.pool}`, () => session.dispatcher.nudge()),
        context.hub.on(`agent:${session.agentId}`, () => sessions.control(session.agentId)),
        context.slots.join(session.pool, session.dispatcher),
      ]
      byAgent.set(session.agentId, { session, off })
      if (!earlier) return
      drop(earlier)
      earlier.session.reject('superseded', 'a newer session of this agent took over')
    },
    async remove(session) {
      const held = byAgent.get(session.agentId)
      if (held?.session !== session) return
      drop(held)
      byAgent.delete(session.agentId)
      touched.delete(session.agentId)
      await forgetSession(context, session)
    },
    touch(session, dropped) {
      const { sessionId, dispatcher } = session
      touched.set(session.agentId, { sessionId, hasJobs: dispatcher.running > 0, dropped })
    },
    control(agentId) {
      const held = byAgent.get(agentId)
      if (held) void control(held.session)
    },
    pools() {
      const pools = new Map<string, Session[]>()
      for (const { session } of byAgent.values())
        pools.set(session.pool, [...(pools.get(session.pool) ?? []), session])
      return pools
    },
    agentIds: () => [...byAgent.keys()],
    sessionIds: () => here().map(({ sessionId }) => sessionId),
    announceKeys: () => here().forEach((session) => session.announceKeys()),
    size: () => byAgent.size,
    async flush() {
      endSilent()
      await giveAgain(context, here())
      const entries = [...touched]
      touched.clear()
      if (entries.length === 0) return
      await extendLeases(
        context,
        entries.filter(([, t]) => t.hasJobs).map(([id]) => id),
      )
      await recordHeard(context, entries)
    },
    async close() {
      await Promise.all(
        [...byAgent.values()].map(async ({ session }) => {
          session.reject('stopping', 'this server process stops; connect again')
          await sessions.remove(session)
        }),
      )
    },
  }
  return sessions
}

function drop({ session, off }: { session: Session; off: (() => void)[] }): void {
  for (const stop of off) stop()
  session.dispatcher.stop()
  for (const sink of session.sinks.values()) sink.close()
  session.sinks.clear()
}
