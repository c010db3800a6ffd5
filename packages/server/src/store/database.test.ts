import { afterAll, beforeAll, expect, it } from 'vitest'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
})
afterAll(() => tenant.stop())

it.each([
  ['jobs by id', 'select id from job where id = any($1::text[])'],
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
