import { readdirSync, readFileSync } from 'node:fs'
import type pg from 'pg'

/** Microseconds of processor time that the kernel has counted so far, user and system together. */
export interface CpuTimes {
  postgres: number
  server: number
  swarm: number
}

const TICK_US = 10_000

interface Stat {
  parent: number
  own: number
  /** Of children that have ended and were waited for. */
  ended: number
}

export async function cpuTimes(db: pg.Pool, server: number, swarm: number): Promise<CpuTimes> {
  return { postgres: await postgresCpu(db), server: statOf(server)!.own, swarm: statOf(swarm)!.own }
}

/** Of the postmaster and all that it has started. */
export async function postgresCpu(db: pg.Pool): Promise<number> {
  const { rows } = await db.query<{ pid: number }>('select pg_backend_pid() as pid')
  const postmaster = statOf(rows[0]!.pid)!.parent
  const { own, ended } = statOf(postmaster)!
  const backends = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => statOf(Number(name)))
    .filter((stat) => stat?.parent === postmaster)
  return own + ended + backends.reduce((sum, stat) => sum + stat!.own, 0)
}

/** Milliseconds of a process so far; 0 once it is gone. */
export function ownCpuMs(pid: number): number {
  return (statOf(pid)?.own ?? 0) / 1000
}

/** Milliseconds of all children of a process that have ended. */
export function endedCpuMs(pid: number): number {
  return (statOf(pid)?.ended ?? 0) / 1000
}

function statOf(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name in brackets may hold spaces; what follows it begins with the state and the parent.
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    return {
      parent: fields[1]!,
      own: TICK_US * (fields[11]! + fields[12]!),
      ended: TICK_US * (fields[13]! + fields[14]!),
    }
  } catch {
    return undefined
  }
}
