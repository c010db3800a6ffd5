import { createHash } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type ClientBase, Pool } from 'pg'

export type Migration = {
  name: string
  sql: string
  /** Databases hold later ones without it: it was written before them and landed after. They do not touch each other. */
  landedLate?: true
}
export type AppliedMigration = { name: string; checksum: string }

export type MigrationErrorCode =
  | 'migration_changed'
  | 'migration_out_of_order'
  | 'migration_failed'
  | 'database_newer'

export class MigrationError extends Error {
  readonly code: MigrationErrorCode

  constructor(code: MigrationErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'MigrationError'
    this.code = code
  }
}

/** Any number that all our processes agree on and nobody else in this database uses. */
const lockKey = 7_365_202_601

/** Who waits for a table holds up everybody who comes after, so that it gives way soon and tries again, this often. */
const LOCK_WAIT_MS = 1_000
const LOCK_TRIES = 60
const LOCK_NOT_HAD = '55P03'

/**
 * Brings the schema forward and returns the names of what was applied. Several processes may call it at once:
 * the first does the work, the others wait and find it done. Each migration is applied whole or not at all.
 */
export async function migrate(db: Pool | ClientBase, migrations: Migration[]): Promise<string[]> {
  if (!(db instanceof Pool)) return migrateOn(db, migrations)
  const client = await db.connect()
  try {
    const names = await migrateOn(client, migrations)
    client.release()
    return names
  } catch (error) {
    client.release(true)
    throw error
  }
}

async function migrateOn(client: ClientBase, migrations: Migration[]): Promise<string[]> {
  await client.query('select pg_advisory_lock($1)', [lockKey])
  try {
    await client.query(`
      create table if not exists schema_migration (
        name text primary key,
        checksum text not null,
        applied_at timestamptz not null default now()
      )`)
    const applied = await client.query<AppliedMigration>('select name, checksum from schema_migration')
    const pending = planMigrations(applied.rows, migrations)
    for (const migration of pending) await applyPatiently(client, migration)
    return pending.map(({ name }) => name)
  } finally {
    await client.query('select pg_advisory_unlock($1)', [lockKey]).catch(() => {})
  }
}

/** What is still to be applied, in order; the list may only ever grow at its end. */
export function planMigrations(applied: AppliedMigration[], migrations: Migration[]): Migration[] {
  const known = new Map(migrations.map((migration) => [migration.name, migration]))
  const done = new Set(applied.map(({ name }) => name))
  for (const { name, checksum } of applied) {
    const migration = known.get(name)
    if (migration === undefined) {
      throw new MigrationError(
        'database_newer',
        `the database has migration ${name}, which this release does not know; ` +
          'start the newer release again, or restore the backup from before the upgrade',
      )
    }
    if (checksumOf(migration) !== checksum) {
      throw new MigrationError(
        'migration_changed',
        `migration ${name} is not the one that was applied; undo the change and add a new migration instead`,
      )
    }
  }
  const pending = migrations.filter(({ name }) => !done.has(name))
  const first = pending.find(({ landedLate }) => !landedLate)
  const late = first && migrations.slice(migrations.indexOf(first)).find(({ name }) => done.has(name))
  if (late !== undefined) {
    throw new MigrationError(
      'migration_out_of_order',
      `migration ${first?.name} comes before ${late.name}, which is already applied; ` +
        'give it a name that sorts last',
    )
  }
  return pending
}

/** Line ends differ between checkouts; the migration does not. */
export function checksumOf(migration: Migration): string {
  return createHash('sha256').update(migration.sql.replaceAll('\r\n', '\n')).digest('hex')
}

/** The .sql files of a folder in the order of their names. */
export function readMigrations(folder: string): Migration[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.sql'))
    .toSorted()
    .map((file) => ({ name: file.slice(0, -'.sql'.length), sql: readFileSync(join(folder, file), 'utf8') }))
}

async function applyPatiently(client: ClientBase, migration: Migration): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await apply(client, migration)
    } catch (error) {
      const { code } = (error as Error).cause as { code?: string }
      if (code !== LOCK_NOT_HAD || tries === LOCK_TRIES) throw error
      await pause(LOCK_WAIT_MS)
    }
  }
}

async function apply(client: ClientBase, migration: Migration): Promise<void> {
  await client.query('begin')
  try {
    await client.query(`set local lock_timeout = ${LOCK_WAIT_MS}`)
    await client.query(migration.sql)
    await client.query('insert into schema_migration (name, checksum) values ($1, $2)', [
      migration.name,
      checksumOf(migration),
    ])
    await client.query('commit')
  } catch (cause) {
    await client.query('rollback').catch(() => {})
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new MigrationError(
      'migration_failed',
      `migration ${migration.name} failed and was rolled back: ${reason}`,
      { cause },
    )
  }
}
