import type { Account } from './account.ts'
import type { Binaries } from './binaries.ts'
import type { Clock } from './clock.ts'
import type { Siblings } from './data-folder.ts'
import { hasProc } from './process-table.ts'

/** All that stays the same over the starts and stops of one PostgreSQL. */
export type Cluster = {
  dataDir: string
  siblings: Siblings
  account: Account | undefined
  binaries: Binaries
  password: string
  durable: boolean
  clock: Clock
  log: Log
}

export type Log = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

export const superuser = 'tenon'
export const database = 'tenon'

/**
 * The other account may not be able to walk to the data folder (/root, a private temporary folder). The child
 * changes into it while it is still root; from then on this name leads there without the way.
 */
export function dataArgument(dataDir: string, account: Account | undefined): string {
  return account !== undefined && hasProc ? '/proc/self/cwd' : dataDir
}

export function connectionUrl(cluster: Cluster, port: number, name: string = database): string {
  return databaseUrl(cluster.password, port, name)
}

export function databaseUrl(password: string, port: number, name: string = database): string {
  return `postgres://${superuser}:${encodeURIComponent(password)}@127.0.0.1:${port}/${name}`
}

export function serverArguments(cluster: Cluster, port: number): string[] {
  const sync = cluster.durable ? 'on' : 'off'
  const settings = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    max_connections: '200',
    fsync: sync,
    synchronous_commit: 'on',
    full_page_writes: sync,
    logging_collector: 'off',
    log_destination: 'stderr',
    log_checkpoints: 'off',
    log_timezone: 'UTC',
    timezone: 'UTC',
  }
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  return ['-D', dataArgument(cluster.dataDir, cluster.account), ...flags]
}
