import { Kysely, PostgresDialect } from 'kysely'
import type { Duplex } from 'node:stream'
import type pg from 'pg'
import type { Database } from './schema.ts'

export type Db = Kysely<Database>

/** Postgres keeps each named statement of each connection in memory, so there is an end to them. */
const MAX_NAMED = 400
/** Texts with more parameters are lists of any length: each is seen too rarely to be worth a name. */
const MAX_PARAMETERS = 20

const names = new Map<string, string>()

/** The same text always has the same name, so that a connection parses and plans it once. */
function nameOf(text: string, parameters: number): string | undefined {
  const known = names.get(text)
  if (known !== undefined || parameters > MAX_PARAMETERS || names.size >= MAX_NAMED) return known
  const name = `s${names.size + 1}`
  names.set(text, name)
  return name
}

export function statement(text: string, values: readonly unknown[]): pg.QueryConfig {
  const name = nameOf(text, values.length)
  return { text, values: [...values], ...(name === undefined ? {} : { name }) }
}

/** Another process migrated a table that a named statement reads: the connection must go, its plans cannot be made anew. */
export function isStalePlan(error: unknown): boolean {
  return (error as { code?: unknown }).code === '0A000'
}

/** Kysely on any free connection of a pool. */
export function dbOn(pool: pg.Pool): Db {
  return kysely(async () => borrowed(await pool.connect()))
}

/** A connection that was taken out of the pool for one transaction after the other. */
export interface TransactionConnection {
  db: Db
  /** `begin` travels with the first statement, in one packet. */
  begin(): void
  /** Sends all of them and `commit` in one packet; answers what each answered. Throws when Postgres rolled back. */
  commit<R extends pg.QueryResultRow>(last: pg.QueryConfig[]): Promise<pg.QueryResult<R>[]>
  rollback(): Promise<void>
}

const onClient = new WeakMap<pg.PoolClient, TransactionConnection>()

export function transactionOn(client: pg.PoolClient): TransactionConnection {
  return memo(onClient, client, () => createTransactionConnection(client))
}

function createTransactionConnection(client: pg.PoolClient): TransactionConnection {
  let toBegin = false
  let began: Promise<unknown> = Promise.resolve()
  const together = <T>(send: () => T): T => {
    const { stream } = (client as unknown as { connection: { stream: Duplex } }).connection
    stream.cork()
    try {
      if (toBegin) {
        toBegin = false
        began = client.query('begin')
        began.catch(() => undefined)
      }
      return send()
    } finally {
      stream.uncork()
    }
  }
  const query: Connection['query'] = (text, values) => together(() => client.query(statement(text, values)))
  const lent: Connection = { query, release: () => undefined }
  return {
    db: kysely(async () => lent),
    begin: () => void (toBegin = true),
    async commit<R extends pg.QueryResultRow>(last: pg.QueryConfig[]) {
      if (toBegin && last.length === 0) {
        toBegin = false
        return []
      }
      const { answers, end } = together(() => ({
        answers: last.map((one) => client.query<R>(one)),
        end: client.query('commit'),
      }))
      const [, ended, ...results] = await Promise.all([began, end, ...answers])
      if (ended.command !== 'COMMIT') throw new Error('Postgres rolled the transaction back')
      return results
    },
    async rollback() {
      if (!toBegin) await client.query('rollback')
      toBegin = false
    },
  }
}

interface Connection {
  query(text: string, values: readonly unknown[]): Promise<pg.QueryResult>
  release(): void
}

const borrowings = new WeakMap<pg.PoolClient, Connection>()

/** One object per connection: Kysely knows connections by their identity. */
function borrowed(client: pg.PoolClient): Connection {
  return memo(borrowings, client, () => {
    let isStale = false
    return {
      async query(text, values) {
        try {
          return await client.query(statement(text, values))
        } catch (error) {
          isStale ||= isStalePlan(error)
          throw error
        }
      },
      release: () => client.release(isStale),
    }
  })
}

function memo<K extends object, V>(map: WeakMap<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

function kysely(connect: () => Promise<Connection>): Db {
  const pool = { connect, end: async () => undefined }
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool: pool as never }) })
}
