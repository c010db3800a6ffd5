import { afterAll, beforeAll, expect, it } from 'vitest'
import { CANCELED } from '../loops/loops.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
})
afterAll(() => tenant.stop())

it('a column that another process adds disturbs no statement that was planned before', async () => {
  const { db, pool } = tenant.context
  const read = () => db.selectFrom('principal').selectAll().execute()
  // On every connection that there is.
  const readOften = () => Promise.all(Array.from({ length: 40 }, read))
  await readOften()
  await pool.query('alter table principal add column later text')
  expect(await readOften()).toHaveLength(40)
  const inTransaction = () =>
    db.transaction().execute((tx) => tx.selectFrom('principal').selectAll().execute())
  await Promise.all(Array.from({ length: 40 }, inTransaction))
  await pool.query('alter table principal add column latest text')
  const ends = await Promise.allSettled(Array.from({ length: 40 }, inTransaction))
  const codes = ends.map((end) => (end.status === 'rejected' ? (end.reason as { code: string }).code : 'ok'))
  expect(['0A000', 'ok']).toEqual(expect.arrayContaining([...new Set(codes)]))
})

it.each([
  ['jobs by id', 'select id from job where id = any($1::text[])'],
  ['agents that have yet to end what was canceled', CANCELED],
  ['steps of runs', 'select id from step where run_id = any($1::text[])'],
  [
    'what a batch ends',
    'update job set status = e.status from unnest($1::text[], $2::text[]) as e(id, status) where job.id = e.id',
  ],
])('a plan made over empty tables finds %s by an index', async (_, text) => {
  const { rows } = await tenant.context.pool.query<{ 'QUERY PLAN': string }>(`explain (generic_plan) ${text}`)
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
  expect(plan).toContain('Index')
  expect(plan).not.toContain('Seq Scan')
})
