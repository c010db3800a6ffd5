import { sql } from 'kysely'
import type { GivenJob, SlotHost, Slots, TakenSlots } from '../ground/slots.ts'
import type { Db } from '../store/database.ts'

export function createSlots(): Slots {
  const byPool = new Map<string, Set<SlotHost>>()
  return {
    join(pool, host) {
      const hosts = byPool.get(pool) ?? new Set()
      byPool.set(pool, hosts.add(host))
      return () => {
        hosts.delete(host)
        if (hosts.size === 0 && byPool.get(pool) === hosts) byPool.delete(pool)
      }
    },
    open: () => openTaken((pool) => [...(byPool.get(pool) ?? [])]),
  }
}

function openTaken(hostsOf: (pool: string) => SlotHost[]): TakenSlots {
  const confirmed = new Set<SlotHost>()
  const leaving = new Set<string>()
  const taken: { host: SlotHost; job: GivenJob }[] = []
  /** Pools of which a job of this change had to queue: those after it go behind it. */
  const queued = new Set<string>()
  const freest = (hosts: SlotHost[]) =>
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
async function lockConnected(db: Db, hosts: readonly SlotHost[]): Promise<SlotHost[]> {
  const { rows } = await sql<{ id: string; session_id: string | null }>`
    select id, session_id from agent where id = any(${hosts.map((host) => host.agentId)}) and status = 'enrolled'
    order by id for share skip locked`.execute(db)
  const sessions = new Map(rows.map((row) => [row.id, row.session_id]))
  return hosts.filter((host) => sessions.get(host.agentId) === host.sessionId)
}
