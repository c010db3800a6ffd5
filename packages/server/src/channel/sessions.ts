import { type Heard, forgetSession, recordHeard } from '../agents/connections.ts'
import type { Context } from '../context.ts'
import { extendLeases } from '../jobs/leases.ts'
import { createBatcher } from '../store/batch.ts'
import { createBatches, type Batches } from './batches.ts'
import { controlAgents } from './control.ts'
import { giveAgain } from './give-again.ts'
import type { Session } from './session.ts'

const CONTROL_BATCH = 500

interface Touched extends Heard {
  hasJobs: boolean
}

type Held = { session: Session; off: (() => void)[] }

/** The agents that are connected to this process, and what is done for all of them at once. */
export class Sessions {
  readonly batches: Batches
  readonly #context: Context
  readonly #byAgent = new Map<string, Held>()
  readonly #touched = new Map<string, Touched>()
  readonly #control: (session: Session) => Promise<void>

  constructor(context: Context) {
    this.#context = context
    this.batches = createBatches(context)
    this.#control = createBatcher<Session, void>(CONTROL_BATCH, async (some) => {
      await controlAgents(context, some)
      return some.map(() => undefined)
    })
  }

  add(session: Session): void {
    const { hub, slots } = this.#context
    const earlier = this.#byAgent.get(session.agentId)
    const off = [
      hub.on(`pool:${session.pool}`, () => session.dispatcher.nudge()),
      hub.on(`agent:${session.agentId}`, () => this.control(session.agentId)),
      slots.join(session.pool, session.dispatcher),
    ]
    this.#byAgent.set(session.agentId, { session, off })
    if (!earlier) return
    drop(earlier)
    earlier.session.reject('superseded', 'a newer session of this agent took over')
  }

  async remove(session: Session): Promise<void> {
    const held = this.#byAgent.get(session.agentId)
    if (held?.session !== session) return
    drop(held)
    this.#byAgent.delete(session.agentId)
    this.#touched.delete(session.agentId)
    await forgetSession(this.#context, session)
  }

  /** A heartbeat arrived: its leases are renewed with everybody else's at the next flush. */
  touch({ agentId, sessionId, dispatcher }: Session, dropped: number): void {
    this.#touched.set(agentId, { sessionId, hasJobs: dispatcher.running > 0, dropped })
  }

  /** Cancels, secrets, or an end of the identity wait for this agent. */
  control(agentId: string): void {
    const held = this.#byAgent.get(agentId)
    if (held) void this.#control(held.session)
  }

  pools(): Map<string, Session[]> {
    const pools = new Map<string, Session[]>()
    for (const session of this.#here()) pools.set(session.pool, [...(pools.get(session.pool) ?? []), session])
    return pools
  }

  agentIds(): string[] {
    return [...this.#byAgent.keys()]
  }

  sessionIds(): string[] {
    return this.#here().map(({ sessionId }) => sessionId)
  }

  /** After the server's keys changed. */
  announceKeys(): void {
    for (const session of this.#here()) session.announceKeys()
  }

  async flush(): Promise<void> {
    this.#endSilent()
    await giveAgain(this.#context, this.#here())
    const entries = [...this.#touched]
    this.#touched.clear()
    if (entries.length === 0) return
    await extendLeases(
      this.#context,
      entries.filter(([, { hasJobs }]) => hasJobs).map(([id]) => id),
    )
    await recordHeard(this.#context, entries)
  }

  async close(): Promise<void> {
    await Promise.all(
      this.#here().map(async (session) => {
        session.reject('stopping', 'this server process stops; connect again')
        await this.remove(session)
      }),
    )
  }

  #here(): Session[] {
    return [...this.#byAgent.values()].map(({ session }) => session)
  }

  /** A machine that lost its power says no goodbye: jobs given to such a connection would be lost. */
  #endSilent(): void {
    const since = this.#context.now() - this.#context.config.leaseSeconds * 1000
    for (const session of this.#here())
      if (session.heardAt() < since) session.reject('busy', 'nothing was heard for too long; connect again')
  }
}

function drop({ session, off }: Held): void {
  for (const stop of off) stop()
  session.dispatcher.stop()
  for (const sink of session.sinks.values()) sink.close()
  session.sinks.clear()
}
