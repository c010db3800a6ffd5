import { Socket } from 'node:net'
import pg from 'pg'
import { dbOn, type Db } from './statements.ts'

export type { Db } from './statements.ts'

const TIMESTAMPTZ = 1184
const INT8 = 20

/** Timestamps come as ISO strings and bigints as numbers: every count and offset here stays far below 2^53. */
const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    if (oid === TIMESTAMPTZ) return (value: string) => new Date(value).toISOString()
    if (oid === INT8) return Number
    return pg.types.getTypeParser(oid, format as 'text')
  },
} as pg.CustomTypesConfig

/**
 * A connection plans each statement once. Planned over tables that are still small, it would read the whole of them for
 * as long as it lives, however many rows they have by then.
 */
const PLANNING = 'set enable_seqscan = off; set jit = off'

/** `silenceMs`: a connection on which nothing moves for so long is given up; 0 waits for ever. */
export function openPool(
  url: string,
  max: number,
  silenceMs: number,
  onError: (error: Error) => void,
): pg.Pool {
  // pg's types do not know `pipeline` yet.
  const options: pg.PoolConfig & { pipeline: boolean } = {
    connectionString: url,
    max,
    types,
    // Statements are sent without waiting for the answer to the one before: `begin` and `commit` cost no round trip.
    pipeline: true,
    application_name: 'tenon-server',
    connectionTimeoutMillis: 5_000,
    // Idle ones leave the pool before their silence could look like a fault.
    idleTimeoutMillis: silenceMs === 0 ? 60_000 : silenceMs / 2,
    stream: () => impatientSocket(silenceMs),
  }
  const pool = new pg.Pool(options)
  // One that breaks while a transaction holds it also tells its statements; without a listener it would end the process.
  pool.on('connect', (client) => {
    client.on('error', onError)
    client.query(PLANNING).catch(onError)
  })
  // An idle connection that breaks (Postgres restarts) is replaced by the pool; without a listener it would end the process.
  pool.on('error', onError)
  return pool
}

/** A network that swallows packets breaks no connection by itself: requests would wait for minutes. */
function impatientSocket(silenceMs: number): Socket {
  const socket = new Socket()
  socket.setTimeout(silenceMs, () =>
    socket.destroy(new Error('connection terminated: the database does not answer')),
  )
  return socket
}

export function openDb(pool: pg.Pool): Db {
  return dbOn(pool)
}

/** Whether an error means that the database is away, rather than that the statement is wrong. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = (error as { code?: unknown }).code
  if (typeof code === 'string') return AWAY.has(code) || code.startsWith('08') || code.startsWith('57P')
  return AWAY_MESSAGES.test(error.message)
}

/** pg has no code for a connection that breaks under a statement, or under the rollback after it. */
const AWAY_MESSAGES =
  /connection terminated|timeout exceeded when trying to connect|connection ended|connection error and is not queryable/i

const AWAY = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE', 'ETIMEDOUT', '53300', '57P03'])

/** The statement is right, but a value in it can never be stored: a zero character, half a surrogate, a year 0. */
export function isUnstorable(error: unknown): boolean {
  return sqlState(error).startsWith('22')
}

/** Two of something that may exist once. */
export function isAlreadyThere(error: unknown): boolean {
  return sqlState(error) === '23505'
}

/** Two transactions waited for each other, and this one was ended for it. */
export function isDeadlock(error: unknown): boolean {
  return sqlState(error) === '40P01'
}

function sqlState(error: unknown): string {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : ''
}
