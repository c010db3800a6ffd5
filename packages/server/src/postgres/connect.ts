import { createServer } from 'node:net'
import { Client } from 'pg'
import { type Cluster, connectionUrl, database } from './cluster.ts'
import { PostgresError, errorCode, portInUse } from './errors.ts'

/** Shows that it answers with our password, and that our database is there. */
export async function ensureReachable(cluster: Cluster, port: number): Promise<{ version: string }> {
  const client = new Client({
    connectionString: connectionUrl(cluster, port, 'postgres'),
    connectionTimeoutMillis: 5000,
    query_timeout: 10_000,
  })
  client.on('error', () => {})
  try {
    await client.connect()
    const found = await client.query('select 1 from pg_database where datname = $1', [database])
    if (found.rowCount === 0) await client.query(`create database ${database}`)
    const version = await client.query<{ server_version: string }>('show server_version')
    return { version: version.rows[0]?.server_version ?? '' }
  } catch (cause) {
    throw unreachable(cluster, cause)
  } finally {
    await client.end().catch(() => {})
  }
}

function unreachable(cluster: Cluster, cause: unknown): PostgresError {
  if (errorCode(cause) === '28P01') {
    return new PostgresError(
      'postgres_data_broken',
      `the database in ${cluster.dataDir} has another password than ${cluster.siblings.password}; ` +
        'restore that file together with the data folder',
      { cause },
    )
  }
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new PostgresError(
    'postgres_start_failed',
    `PostgreSQL runs but does not answer (${reason}); see ${cluster.siblings.log}`,
    { cause },
  )
}

export async function requireFreePort(port: number): Promise<void> {
  await listenOnce(port)
}

export async function freePort(): Promise<number> {
  return listenOnce(0)
}

async function listenOnce(port: number): Promise<number> {
  const server = createServer()
  return new Promise((settle, reject) => {
    server.once('error', (cause) => {
      const taken = errorCode(cause) === 'EADDRINUSE'
      const message = `cannot listen on port ${port}: ${cause.message}; choose another port (0 takes a free one)`
      reject(taken ? portInUse(port) : new PostgresError('postgres_start_failed', message, { cause }))
    })
    server.listen(port, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => settle(typeof address === 'object' && address !== null ? address.port : port))
    })
  })
}
