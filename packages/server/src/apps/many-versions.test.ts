import pg from 'pg'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { builtApp, component } from '../testing/world.ts'

const VERSIONS = 500

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
  await builtApp(tenant)
  await tenant.context.pool.query(
    `insert into app_version (id, app_id, number, content, digest, created_at)
    select 'appv_old_' || n, app_id, n, content, digest || n, created_at
    from app_version, generate_series(2, $1) n where number = 1`,
    [VERSIONS],
  )
})
afterAll(() => tenant.stop())

const source = async () =>
  (await tenant.client.call('sources.put', { body: new TextEncoder().encode('a source') })).digest
const app = (description: string) => ({
  name: 'shop',
  displayName: 'shop',
  description,
  components: [component('db'), component('web', ['db'])],
})

it.each<[string, () => Promise<unknown>]>([
  ['showing an app', () => tenant.client.call('apps.get', { params: { ref: 'shop' } })],
  ['listing apps', () => tenant.client.call('apps.list', { query: {} })],
  ['syncing an app', () => tenant.client.call('apps.sync', { body: { app: app('newer') } })],
  [
    'building',
    async () =>
      tenant.client.call('builds.create', {
        params: { ref: 'shop' },
        body: { components: [{ name: 'db', source: await source() }] },
      }),
  ],
  [
    'deciding a run',
    () =>
      tenant.client.call('installs.create', {
        body: { name: 'acme', app: 'shop', sandbox: { type: 'none', config: {} } },
      }),
  ],
])('%s reads one version of the app, however many it has', async (_, work) => {
  const rows = countRows()
  await work()
  const read = rows()
  expect(read).toBeGreaterThan(0)
  expect(read).toBeLessThan(100)
})

/** What comes from Postgres to this process, in whatever statement. */
function countRows(): () => number {
  const { Result } = pg as unknown as { Result: { prototype: { parseRow(fields: unknown): unknown } } }
  const spy = vi.spyOn(Result.prototype, 'parseRow')
  return () => {
    const rows = spy.mock.calls.length
    spy.mockRestore()
    return rows
  }
}
