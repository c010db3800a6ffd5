import { realpathSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { type Clock, systemClock } from './clock.ts'
import { type Cluster, type Log, connectionUrl } from './cluster.ts'
import { openCluster } from './open-cluster.ts'
import { freePort, requireFreePort } from './connect.ts'
import { requireWritableParent, siblingsOf } from './data-folder.ts'
import { PostgresError } from './errors.ts'
import { adoptOrClear } from './orphan.ts'
import { type Postmaster, spawnPostmaster } from './postmaster.ts'
import { acquireLock } from './supervisor-lock.ts'
import { type EmbeddedPostgres, supervise } from './supervise.ts'

export type EmbeddedPostgresOptions = {
  dataDir: string
  /** 0, the default, takes a free port; an adopted PostgreSQL then keeps the one it has. */
  port?: number
  /** Generated and kept beside the data folder when not given. */
  superuserPassword?: string
  /** false gives up durability for speed: for tests only. */
  durable?: boolean
  log: Log
  clock?: Clock
}

/**
 * Brings up PostgreSQL on the data folder and keeps it up: makes the database on the first start, adopts a
 * PostgreSQL that outlived its supervisor, restarts one that crashes. One supervisor per data folder.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const dataDir = settledPath(options.dataDir)
  const lock = acquireLock(siblingsOf(dataDir).lock)
  try {
    const cluster = await openCluster({
      dataDir,
      password: options.superuserPassword,
      durable: options.durable ?? true,
      clock: options.clock ?? systemClock,
      log: options.log,
    })
    const first = await bringUp(cluster, options.port ?? 0)
    const url = connectionUrl(cluster, first.port)
    return supervise({ cluster, first, url, lock, bringUp: async () => bringUp(cluster, first.port) })
  } catch (error) {
    lock.release()
    throw error
  }
}

async function bringUp(cluster: Cluster, port: number): Promise<Postmaster> {
  const adopted = await adoptOrClear(cluster, port)
  if (adopted !== undefined) return adopted
  if (port !== 0) {
    await requireFreePort(port)
    return spawnPostmaster(cluster, port)
  }
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await spawnPostmaster(cluster, await freePort())
    } catch (error) {
      const raced = error instanceof PostgresError && error.code === 'postgres_port_in_use'
      if (!raced || attempt === 3) throw error
    }
  }
}

/** Two names of one folder must meet at one lock. */
function settledPath(given: string): string {
  const path = resolve(given)
  requireWritableParent(path)
  return join(realpathSync(dirname(path)), basename(path))
}
