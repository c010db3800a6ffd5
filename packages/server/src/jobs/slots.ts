import type { JobKind } from '@tenon/core'
import { sql } from 'kysely'
import type { Db } from '../store/database.ts'
import type { ClaimedJob } from './claim.ts'

/** An agent that is connected to this process, and its places for jobs. */
export interface SeatHost {
  readonly agentId: string
  readonly sessionId: string
  /** Places that nobody in the queue waits for. Jobs in `leaving` count as gone. */
  free(leaving: ReadonlySet<string>): number
  /** Whether the agent has all of these features. */
  can(requires: readonly string[]): boolean
  /** Keeps a place. False when there is none, or when others may wait for it. */
  reserve(jobId: string, kind: JobKind, leaving: ReadonlySet<string>): boolean
  giveBack(jobId: string): void
  give(job: ClaimedJob): void
  /** It may have been given jobs that this process does not know of: it must connect again and say what it holds. */
  doubt(): void
}

/** The agents of this process by pool. A job that is made here for one of them needs no way through the queue. */
export interface Seats {
  join(pool: string, host: SeatHost): () => void
  /** For one transaction. */
  open(): Taking
}

/** The places that one change takes. They are its own until it ends, in one of three ways. */
export interface Taking {
  /** Locks the agents that may get jobs of these pools, one pool per job, if they are still connected here. */
  confirm(db: Db, pools: readonly string[]): Promise<void>
  /** This change ends the job, so that its place is free for another. */
  leave(jobId: string): void
  /** Who gets the job. Undefined: it goes into the queue. */
  take(pool: string, wanted: Wanted, job: ClaimedJob): string | undefined
  committed(): void
  rolledBack(): void
  /** The connection broke: nobody knows whether it was committed. */
  inDoubt(): void
}

export interface Wanted {
  kind: JobKind
  requires: readonly string[]
}

export function createSeats(): Seats {
  const byPool = new Map<string, Set<SeatHost>>()
  return {
    join(pool, host) {
      const hosts = byPool.get(pool) ?? new Set()
      byPool.set(pool, hosts.add(host))
      return () => {
        hosts.delete(host)
        if (hosts.size === 0 && byPool.get(pool) === hosts) byPool.delete(pool)
      }
    },
    open: () => openTaking((pool) => [...(byPool.get(pool) ?? [])]),
  }
}

function openTaking(hostsOf: (pool: string) => SeatHost[]): Taking {
  const confirmed = new Set<SeatHost>()
  const leaving = new Set<string>()
  const taken: { host: SeatHost; job: ClaimedJob }[] = []
  /** Pools of which a job of this change had to queue: those after it go behind it. */
  const queued = new Set<string>()
  const freest = (hosts: SeatHost[]) =>
    hosts
      .map((host) => ({ host, free: host.free(leaving) }))
      .filter(({ free }) => free > 0)
      .toSorted((a, b) => b.free - a.free)
      .map(({ host }) => host)

  return {
    async confirm(db, pools) {
      const wanted = [...new Set(pools)].flatMap((pool) =>
        freest(hostsOf(pool)).slice(0, pools.filter((one) => one === pool).length),
      )
      const asked = wanted.filter((host) => !confirmed.has(host))
      if (asked.length === 0) return
      for (const host of await lockConnected(db, asked)) confirmed.add(host)
    },
    leave: (jobId) => void leaving.add(jobId),
    take(pool, { kind, requires }, job) {
      const able = queued.has(pool)
        ? []
        : freest(hostsOf(pool).filter((host) => confirmed.has(host) && host.can(requires)))
      const host = able.find((one) => one.reserve(job.id, kind, leaving))
      if (host) taken.push({ host, job })
      else queued.add(pool)
      return host?.agentId
    },
    committed: () => taken.forEach(({ host, job }) => host.give(job)),
    rolledBack: () => taken.forEach(({ host, job }) => host.giveBack(job.id)),
    inDoubt: () => new Set(taken.map(({ host }) => host)).forEach((host) => host.doubt()),
  }
}

/**
 * Until the commit no newer session of these agents can open, so that one sees what was given. Never waits for a row:
 * a session that opens holds its agent's before it takes runs, and this change may hold those.
 */
async function lockConnected(db: Db, hosts: readonly SeatHost[]): Promise<SeatHost[]> {
  const { rows } = await sql<{ id: string; session_id: string | null }>`
    select id, session_id from agent where id = any(${hosts.map((host) => host.agentId)}) and status = 'enrolled'
    order by id for share skip locked`.execute(db)
  const sessions = new Map(rows.map((row) => [row.id, row.session_id]))
  return hosts.filter((host) => sessions.get(host.agentId) === host.sessionId)
}
