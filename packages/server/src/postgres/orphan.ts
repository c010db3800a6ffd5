import { existsSync, readFileSync, rmSync } from 'node:fs'
import { waitFor } from './clock.ts'
import { type Cluster, serverArguments } from './cluster.ts'
import { ensureReachable } from './connect.ts'
import { PostgresError } from './errors.ts'
import { pidFilePath, readPidFile } from './pid-file.ts'
import { type Postmaster, adoptPostmaster, stopProcess } from './postmaster.ts'
import {
  type ProcessIdentity,
  hasProc,
  identify,
  isAlive,
  postgresProcessesIn,
  runsPostgresIn,
  signal,
} from './process-table.ts'

const settleMs = 30_000
const leftoverMs = 10_000

/**
 * Deals with what an earlier life left on this data folder: a live PostgreSQL with our settings is adopted, any
 * other is stopped; afterwards nothing runs on the folder and no stale pid file stands in the way of a start.
 */
export async function adoptOrClear(cluster: Cluster, port: number): Promise<Postmaster | undefined> {
  const found = livePostmaster(cluster.dataDir)
  if (found !== undefined) {
    const adopted = await tryToAdopt(cluster, found, port)
    if (adopted !== undefined) return adopted
    cluster.log.info({ pid: found.pid }, 'an earlier postgres is stopped')
    await stopProcess(cluster, found)
  }
  await endLeftovers(cluster)
  removeStalePidFile(cluster)
  return undefined
}

function livePostmaster(dataDir: string): ProcessIdentity | undefined {
  const file = readPidFile(dataDir)
  return file !== undefined && runsPostgresIn(file.pid, dataDir) ? identify(file.pid) : undefined
}

async function tryToAdopt(
  cluster: Cluster,
  found: ProcessIdentity,
  wantedPort: number,
): Promise<Postmaster | undefined> {
  const { clock, dataDir, log } = cluster
  const port = await waitFor(clock, settleMs, () => {
    const file = readPidFile(dataDir)
    if (!isAlive(found) || file?.pid !== found.pid) return 'gone'
    return file.status === 'ready' ? file.port : undefined
  })
  if (typeof port !== 'number' || (wantedPort !== 0 && wantedPort !== port)) return undefined
  if (!runsWith(found.pid, serverArguments(cluster, port))) return undefined
  try {
    const { version } = await ensureReachable(cluster, port)
    if (version.split(' ')[0] !== cluster.binaries.version) return undefined
  } catch (error) {
    log.warn({ pid: found.pid, error }, 'an earlier postgres does not answer')
    return undefined
  }
  log.info({ pid: found.pid, port }, 'an earlier postgres is adopted')
  return adoptPostmaster(cluster, found, port)
}

/** Settings of another release must not live on unnoticed. */
function runsWith(pid: number, args: string[]): boolean {
  try {
    const [, ...running] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1)
    return running.length === args.length && running.every((value, index) => value === args[index])
  } catch {
    return false
  }
}

/** Backends can outlive a killed postmaster for a moment; a second one beside them would spoil the data. */
async function endLeftovers(cluster: Cluster): Promise<void> {
  for (const name of ['SIGQUIT', 'SIGKILL'] as const) {
    for (const leftover of postgresProcessesIn(cluster.dataDir)) signal(leftover, name)
    const gone = () => (postgresProcessesIn(cluster.dataDir).length === 0 ? true : undefined)
    if (await waitFor(cluster.clock, leftoverMs, gone)) return
  }
  const pids = postgresProcessesIn(cluster.dataDir).map(({ pid }) => pid)
  throw new PostgresError(
    'postgres_data_in_use',
    `processes ${pids.join(', ')} of an earlier PostgreSQL still use ${cluster.dataDir}; end them, then start again`,
  )
}

/** PostgreSQL clears the file of a dead process itself, but not one whose pid a stranger or a zombie has. */
function removeStalePidFile(cluster: Cluster): void {
  const path = pidFilePath(cluster.dataDir)
  if (!hasProc || !existsSync(path)) return
  const file = readPidFile(cluster.dataDir)
  if (file !== undefined && !existsSync(`/proc/${file.pid}`)) return
  cluster.log.info({ pid: file?.pid }, 'a stale postmaster.pid is removed')
  rmSync(path, { force: true })
}
