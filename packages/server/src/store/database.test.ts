import { afterAll, beforeAll, expect, it } from 'vitest'
import { CANCELED } from '../agents/attention.ts'
import { CLAIM } from '../jobs/claim.ts'
import { selectJobs } from '../jobs/lists.ts'
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
  const plan = await planOf(text)
  expect(plan).toContain('Index')
  expect(plan).not.toContain('Seq Scan')
})

it.each([
  ['an install', {}],
  ['a component of an install', { component: 'web' }],
  ['a component of an install, page by page', { component: 'web', after: 'job_5' }],
])('jobs of %s are found through its runs, however many jobs others have', async (_, filter) => {
  await manyJobs()
  const wanted = selectJobs(tenant.context.db, { installId: 'inst_1', limit: 2, ...filter })
  for (const analyzed of [false, true]) {
    if (analyzed) await tenant.context.pool.query('analyze')
    const plan = await planOf(wanted.compile().sql)
    expect(plan).toContain('run_of_install')
    expect(plan).toContain('job_of_run')
    expect(plan).not.toContain('Seq Scan')
    expect(plan.match(/job_pkey.*\n *Index Cond/g) ?? []).toHaveLength(plan.match(/job_pkey/g)?.length ?? 0)
  }
})

it('the queue is read in its order by its indexes, however many wait and whatever they require', async () => {
  await manyJobs()
  for (const requires of ['{}', '{network}']) {
    await tenant.context.pool.query(
      `update job set status = 'queued', requires = $1 where install_id in ('inst_1', 'inst_2')`,
      [requires],
    )
    await tenant.context.pool.query('analyze')
    const plan = await planOf(CLAIM)
    expect(plan.match(/Index Scan using job_queue(_interactive)? on job/g)).toHaveLength(6)
    expect(plan).not.toMatch(/Bitmap|Seq Scan|Sort Key: job/)
  }
})

async function planOf(text: string): Promise<string> {
  const { rows } = await tenant.context.pool.query<{ 'QUERY PLAN': string }>(`explain (generic_plan) ${text}`)
  return rows.map((row) => row['QUERY PLAN']).join('\n')
}

/** Of fifty installs, with nothing of what they refer to. */
async function manyJobs(): Promise<void> {
  const { rows } = await tenant.context.pool.query('select from job limit 1')
  if (rows.length > 0) return
  await tenant.context.pool.query(`do $$ begin
    set local session_replication_role = replica;
    insert into run (id, install_id, app_version_id, kind, status, created_by, created_at)
      select 'run_' || n, 'inst_' || n % 50, 'appv_1', 'deploy', 'succeeded', 'prn_1', now()
      from generate_series(1, 3000) n;
    insert into step (id, run_id, position, key, kind, component, depends_on, status)
      select 'step_' || n, 'run_' || n / 4, n % 4, 'deploy:' || n % 4, 'deploy', 'web', '{}', 'succeeded'
      from generate_series(4, 12000) n;
    insert into job (id, kind, pool, role, install_id, status, fence, run_id, step_id, manifest, manifest_issued_at,
        manifest_key_id, manifest_signature, manifest_digest, created_at)
      select 'job_' || n, 'deploy', 'install', 'install', 'inst_' || n / 4 % 50, 'succeeded', 1, 'run_' || n / 4,
        'step_' || n, '{}', now(), 'key_1', '', '', now()
      from generate_series(4, 12000) n;
  end $$`)
}
