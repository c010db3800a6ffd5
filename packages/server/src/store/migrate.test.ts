import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { assert, nat, property, string, uniqueArray } from 'fast-check'
import { Pool } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  type TestDatabase,
  createTestDatabase,
  startTestCluster,
  testClusterVariable,
} from '../postgres/test-database.ts'
import { until } from '../testing/until.ts'
import { checksumOf, migrate, planMigrations, readMigrations } from './migrate.ts'

const first = {
  name: '0001_thing',
  sql: 'create table thing (id int primary key); insert into thing values (1)',
}
const second = { name: '0002_color', sql: 'alter table thing add color text' }

describe('migrate', () => {
  let ownCluster: Awaited<ReturnType<typeof startTestCluster>> | undefined
  let database: TestDatabase
  let pool: Pool

  beforeAll(async () => {
    if (process.env[testClusterVariable] !== undefined) return
    ownCluster = await startTestCluster()
    process.env[testClusterVariable] = ownCluster.url
  })
  afterAll(async () => {
    if (ownCluster === undefined) return
    delete process.env[testClusterVariable]
    await ownCluster.stop()
  })
  beforeEach(async () => {
    database = await createTestDatabase()
    pool = new Pool({ connectionString: database.url })
  })
  afterEach(async () => {
    await pool.end()
    await database.drop()
  })

  it('applies what is missing, in order, once', async () => {
    expect(await migrate(pool, [first])).toEqual(['0001_thing'])
    expect(await migrate(pool, [first, second])).toEqual(['0002_color'])
    expect(await migrate(pool, [first, second])).toEqual([])
    expect((await pool.query('select id, color from thing')).rows).toEqual([{ id: 1, color: null }])
    const { rows } = await pool.query('select name, checksum, applied_at from schema_migration order by name')
    expect(rows).toEqual([
      { name: '0001_thing', checksum: checksumOf(first), applied_at: expect.any(Date) },
      { name: '0002_color', checksum: checksumOf(second), applied_at: expect.any(Date) },
    ])
  })

  it('works on one client as on a pool', async () => {
    const client = await pool.connect()
    try {
      expect(await migrate(client, [first])).toEqual(['0001_thing'])
    } finally {
      client.release()
    }
  })

  it('lets eight processes start at once', async () => {
    const pools = Array.from({ length: 8 }, () => new Pool({ connectionString: database.url }))
    try {
      const results = await Promise.all(pools.map(async (each) => migrate(each, [first, second])))
      expect(results.flat().toSorted()).toEqual(['0001_thing', '0002_color'])
    } finally {
      await Promise.all(pools.map(async (each) => each.end()))
    }
  })

  it('rolls a failing migration back whole, keeps those before it, and goes on once it is repaired', async () => {
    const failing = { name: '0002_color', sql: 'alter table thing add color text; select 1 / 0' }
    await expect(migrate(pool, [first, failing])).rejects.toMatchObject({
      code: 'migration_failed',
      message: expect.stringContaining('0002_color'),
    })
    expect((await pool.query('select * from thing')).rows).toEqual([{ id: 1 }])
    expect(await migrate(pool, [first, second])).toEqual(['0002_color'])
  })

  it('refuses a migration that changed after it was applied', async () => {
    await migrate(pool, [first])
    await expect(migrate(pool, [{ ...first, sql: `${first.sql};` }])).rejects.toMatchObject({
      code: 'migration_changed',
    })
  })

  it('refuses a database that a newer release has migrated', async () => {
    await migrate(pool, [first, second])
    await expect(migrate(pool, [first])).rejects.toMatchObject({ code: 'database_newer' })
  })

  it('lets others at a table that it has to wait for', async () => {
    await migrate(pool, [first])
    const reader = await pool.connect()
    try {
      await reader.query('begin; select * from thing')
      const migrated = migrate(pool, [first, second])
      await until('the migration to wait for the table', async () => {
        const { rows } = await pool.query(
          `select from pg_locks where relation = 'thing'::regclass and not granted`,
        )
        return rows.length > 0
      })
      expect((await pool.query('select * from thing')).rows).toEqual([{ id: 1 }])
      await reader.query('commit')
      expect(await migrated).toEqual([second.name])
    } finally {
      reader.release()
    }
  })

  it('frees its lock after a refusal', async () => {
    await migrate(pool, [first, second])
    await expect(migrate(pool, [first])).rejects.toMatchObject({ code: 'database_newer' })
    expect(await migrate(pool, [first, second])).toEqual([])
  })
})

describe('planMigrations', () => {
  it('plans exactly the rest of the list, wherever an earlier release stopped', () => {
    const list = uniqueArray(string({ minLength: 1 }), { maxLength: 12 })
    assert(
      property(list, nat(12), (names, count) => {
        const migrations = names.map((name) => ({ name, sql: `-- ${name}` }))
        const applied = migrations
          .slice(0, count)
          .map((each) => ({ name: each.name, checksum: checksumOf(each) }))
        expect(planMigrations(applied, migrations)).toEqual(migrations.slice(count))
      }),
    )
  })

  it('refuses one that sorts before an applied one', () => {
    const applied = [{ name: second.name, checksum: checksumOf(second) }]
    expect(() => planMigrations(applied, [first, second])).toThrow(
      expect.objectContaining({ code: 'migration_out_of_order' }),
    )
  })

  it('applies one that landed late where later ones are applied already', () => {
    const applied = [{ name: second.name, checksum: checksumOf(second) }]
    expect(planMigrations(applied, [{ ...first, landedLate: true }, second])).toMatchObject([first])
  })

  it('takes no notice of line ends', () => {
    expect(checksumOf({ name: 'a', sql: 'a;\r\nb;' })).toBe(checksumOf({ name: 'a', sql: 'a;\nb;' }))
  })
})

describe('readMigrations', () => {
  it('reads the .sql files of a folder in the order of their names', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tenon-migrations-'))
    try {
      writeFileSync(join(folder, '0002_b.sql'), 'b')
      writeFileSync(join(folder, '0001_a.sql'), 'a')
      writeFileSync(join(folder, 'notes.txt'), 'n')
      expect(readMigrations(folder)).toEqual([
        { name: '0001_a', sql: 'a' },
        { name: '0002_b', sql: 'b' },
      ])
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
