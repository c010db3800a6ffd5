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

export function openPool(url: string, max: number, onError: (error: Error) => void): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    types,
    // Statements are sent without waiting for the answer to the one before: `begin` and `commit` cost no round trip.
    ...{ pipeline: true },
    application_name: 'tenon-server',
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 60_000,
  })
  // An idle connection that breaks (Postgres restarts) is replaced by the pool; without a listener it would end the process.
  pool.on('error', onError)
  return pool
}

export function openDb(pool: pg.Pool): Db {
  return dbOn(pool)
}

/** Whether an error means that the database is away, rather than that the statement is wrong. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = (error as { code?: unknown }).code
  if (typeof code === 'string') return AWAY.has(code) || code.startsWith('08') || code.startsWith('57P')
  return /connection terminated|timeout exceeded when trying to connect|Connection ended/i.test(error.message)
}

const AWAY = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE', 'ETIMEDOUT', '53300', '57P03'])
