import { entryParts } from '@tenon/core'
import { Pool } from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../postgres/test-database.ts'
import { migrate } from '../migrate.ts'
import { migrations } from './index.ts'

const AT = '2026-11-01T00:00:00.000Z'
const id = (prefix: string, n: number) => `${prefix}_${String(n).padStart(26, '0')}`
const INSTALL = id('ins', 1)

let database: TestDatabase
let pool: Pool
beforeEach(async () => {
  database = await createTestDatabase()
  pool = new Pool({ connectionString: database.url })
  await migrate(
    pool,
    migrations.filter(({ name }) => name < '0008'),
  )
  await pool.query(`
    insert into app values ('${id('app', 1)}', 'shop', '${AT}');
    insert into app_version values ('${id('ver', 1)}', '${id('app', 1)}', 1, '{}', 'd', '${AT}');
    insert into install (id, name, app_id, status, sandbox_type, sandbox_config, inputs, created_at)
      values ('${INSTALL}', 'acme', '${id('app', 1)}', 'active', 'none', '{}', '{}', '${AT}')`)
})
afterEach(async () => {
  await pool.end()
  await database.drop()
})

/** What a process of the version before writes. */
const addToken = (n: number, name: string) =>
  pool.query(
    `insert into api_token (id, name, role, secret_hash, created_at) values ($1, $2, 'operator', $1, $3)`,
    [id('tok', n), name, AT],
  )
const addRun = (n: number, by: string) =>
  pool.query(
    `insert into run (id, install_id, app_version_id, kind, status, created_by, created_at)
     values ($1, $2, $3, 'deploy', 'succeeded', $4, $5)`,
    [id('run', n), INSTALL, id('ver', 1), by, AT],
  )
async function addAudit(n: number, actor: { type: 'user' | 'server'; id: string }) {
  const subject = { type: 'run', id: id('run', n) }
  // Details that look like what the migration looks for.
  const details = { kind: 'deploy', steps: ['","type":"run"}}', `"subject":{"id":"${id('run', 9)}"`] }
  const fact = {
    actor,
    action: 'run.created',
    subject,
    outcome: 'ok' as const,
    manifestDigest: null,
    details,
  }
  const { before, after } = entryParts(INSTALL, fact, AT)
  await pool.query('select * from audit_append($1, $2, $3)', [[INSTALL], [before], [after]])
}
const creators = async () =>
  (await pool.query('select created_by, creator_kind, creator_id from run order by id')).rows

it('gives each run the one who made it, though tokens had the same name', async () => {
  await addToken(1, 'ci')
  await addToken(2, 'ci')
  await addRun(1, 'ci')
  await addRun(2, 'ci')
  await addRun(3, 'schedule')
  await addRun(4, 'ci')
  await addAudit(1, { type: 'user', id: id('tok', 2) })
  await addAudit(2, { type: 'user', id: id('tok', 1) })
  await addAudit(3, { type: 'server', id: id('srv', 1) })
  await pool.query(
    `insert into join_token (id, secret_hash, role, created_by, created_at, expires_at)
     values ('j', 'h', 'build', $1, $2, $2)`,
    [id('tok', 1), AT],
  )
  await migrate(pool, migrations)
  expect(await creators()).toEqual([
    { created_by: 'ci', creator_kind: 'user', creator_id: id('prn', 2) },
    { created_by: 'ci', creator_kind: 'user', creator_id: id('prn', 1) },
    { created_by: 'schedule', creator_kind: 'server', creator_id: id('srv', 1) },
    // Nothing in the audit says who: the name alone stays.
    { created_by: 'ci', creator_kind: null, creator_id: null },
  ])
  const { rows } = await pool.query('select id, kind, name from principal order by id')
  expect(rows).toEqual([
    { id: id('prn', 1), kind: 'user', name: 'ci' },
    { id: id('prn', 2), kind: 'user', name: 'ci' },
  ])
  expect((await pool.query('select created_by from join_token')).rows).toEqual([{ created_by: id('prn', 1) }])
})

it('lets a process of the version before go on: its tokens get a principal, its runs have a name', async () => {
  await migrate(pool, migrations)
  await addToken(7, 'late')
  await addRun(7, 'late')
  const { rows } = await pool.query('select principal_id, name from api_token')
  expect(rows).toEqual([{ principal_id: id('prn', 7), name: 'late' }])
  expect(await creators()).toEqual([{ created_by: 'late', creator_kind: null, creator_id: null }])
})
