import { Kysely, PostgresDialect, sql, type CompiledQuery, type RawBuilder } from 'kysely'
import type { Duplex } from 'node:stream'
import type pg from 'pg'
import { corked } from '../ground/corked.ts'
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
  return { text, values: values.map(listText), ...(name === undefined ? {} : { name }) }
}

/** Every one is kept by every connection, so this process's count has an end that must not be reached. */
export function namedStatements(): number {
  return names.size
}

/** For `=`: one of these, in a text that is the same for every length. */
export function anyOf<const T extends string>(values: readonly T[]): RawBuilder<T> {
  return sql<T>`any(${values}::text[])`
}

/** Lists are most of what is sent. The engine's own JSON is what Postgres reads, but for characters that it escapes. */
function listText(value: unknown): unknown {
  if (!Array.isArray(value)) return value
  return value.every((one) => typeof one === 'string' && !ESCAPED_BY_JSON.test(one))
    ? `{${value.map((one) => JSON.stringify(one)).join(',')}}`
    : value
}

// oxlint-disable-next-line no-control-regex
const ESCAPED_BY_JSON = /[\u0000-\u001f\ud800-\udfff]/

/** Another process migrated a table that a named statement reads: the connection must go, its plans cannot be made anew. */
export function isStalePlan(error: unknown): boolean {
  return (error as { code?: unknown }).code === '0A000'
}

/** Kysely on any free connection of a pool. */
export function dbOn(pool: pg.Pool): Db {
  return kysely(async () => borrowed(await pool.connect()))
}

/** A statement of Kysely, built and not yet sent. */
export interface Change {
  compile(db: Db): CompiledQuery
}

/**
 * A connection that was taken out of the pool for one transaction after the other. Whatever is asked of it in one turn
 * of the event loop travels in one packet, `begin` with the first statement and `commit` with the last.
 */
export interface TransactionConnection {
  db: Db
  begin(): void
  /** Sent in its order like any other, but not waited for. When it fails, so does what follows it, and the commit. */
  write(change: Change): void
  /** Answers what each of the last statements answered. Throws when Postgres rolled back. */
  commit<R extends pg.QueryResultRow>(last: pg.QueryConfig[]): Promise<pg.QueryResult<R>[]>
  /** Answers why a write failed: everything after it only heard that the transaction is over. */
  rollback(): Promise<unknown>
}

const onClient = new WeakMap<pg.PoolClient, TransactionConnection>()

export function transactionOn(client: pg.PoolClient): TransactionConnection {
  return memo(onClient, client, () => createTransactionConnection(client))
}

function createTransactionConnection(client: pg.PoolClient): TransactionConnection {
  const sendTogether = corked((client as unknown as { connection: { stream: Duplex } }).connection.stream)
  let toBegin = false
  let unheard: Promise<unknown>[] = []
  let failure: unknown
  const send = <T extends pg.QueryResultRow>(query: pg.QueryConfig | string) => {
    sendTogether()
    if (toBegin) {
      toBegin = false
      hear(client.query('begin'))
    }
    return client.query<T>(query as pg.QueryConfig)
  }
  const hear = (answer: Promise<unknown>) => {
    unheard.push(answer)
    answer.catch((error: unknown) => (failure ??= error))
  }
  const lent: Connection = {
    query: (text, values) => send(statement(text, values)),
    release: () => undefined,
  }
  const db = kysely(async () => lent)
  return {
    db,
    begin() {
      toBegin = true
      unheard = []
      failure = undefined
    },
    write(change) {
      const { sql, parameters } = change.compile(db)
      hear(send(statement(sql, parameters)))
    },
    async commit<R extends pg.QueryResultRow>(last: pg.QueryConfig[]) {
      if (toBegin && last.length === 0) {
        toBegin = false
        return []
      }
      const answers = last.map((one) => send<R>(one))
      const end = send('commit')
      const [ended, results] = await Promise.all([end, Promise.all(answers), ...unheard])
      if (ended.command !== 'COMMIT') throw new Error('Postgres rolled the transaction back')
      return results
    },
    async rollback() {
      if (!toBegin) await send('rollback')
      toBegin = false
      return failure
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
          if (!isStalePlan(error)) throw error
          isStale = true
          // Without its name it is planned anew. Inside a transaction Postgres takes nothing more: what happened is told.
          return await client.query(text, values.map(listText)).catch(() => Promise.reject(error))
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
