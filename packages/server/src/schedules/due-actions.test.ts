import type { App } from '@tenon/core'
import { Pool } from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createTestDatabase } from '../postgres/test-database.ts'
import { migrate } from '../store/migrate.ts'
import { migrations } from '../store/migrations/index.ts'
import { auditOf } from '../testing/audit.ts'
import { action, plannedWorld } from '../testing/planned-world.ts'
import { startTestTenant, type TestServer, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { component, ended, newInstall, nothingDue } from '../testing/world.ts'
import { startDueActions } from './due-actions.ts'

/** Far enough away that only what a test makes due is started. */
const YEARLY = '0 0 1 1 *'
const backup = (...schedules: string[]) =>
  action(
    'backup',
    schedules.map((cron) => ({ type: 'cron', cron })),
  )

describe('actions on a schedule', () => {
  let a: TestTenant
  let b: TestServer

  beforeAll(async () => {
    a = await startTestTenant()
    b = await a.another()
  })
  afterAll(() => a.stop())
  afterEach(async () => {
    await a.assertSound()
    await b.assertSound()
  })

  const world = (actions: App['actions'] = [backup(YEARLY)]) =>
    plannedWorld(a, [component('db')], { actions })
  const syncApp = (name: string, actions: App['actions'] = []) =>
    a.client.call('apps.sync', {
      body: { app: { name, displayName: name, description: '', components: [component('db')], actions } },
    })
  const installOf = (name: string) => a.client.call('installs.get', { params: { ref: name } })
  const rowOf = async (name: string) => {
    const { id } = await installOf(name)
    return a.context.db
      .selectFrom('install_action')
      .selectAll()
      .where('install_id', '=', id)
      .executeTakeFirst()
  }
  const makeDue = async (name: string, ago = '1 second') => {
    const { id } = await installOf(name)
    const sql = `update install_action set next_at = now() - interval '${ago}' where install_id = $1`
    await a.context.pool.query(sql, [id])
  }
  const actionRuns = async (name: string) => {
    const { items } = await a.client.call('runs.list', { query: { install: name, limit: 100 } })
    return items.filter(({ kind }) => kind === 'action')
  }
  /** The servers' own looks go on beside these: what they hold is theirs to end. */
  const both = async () => {
    await Promise.all([startDueActions(a.context), startDueActions(b.context)])
    await nothingDue(a)
  }

  it('run when their time has come, once over all processes, and wait for the next', async () => {
    const w = await world()
    expect((await rowOf(w.name))?.next_at).toMatch(/-01-01T00:00:00.000Z$/)
    await makeDue(w.name)
    await Promise.all([both(), both(), both()])
    const [run, ...more] = await actionRuns(w.name)
    expect(more).toEqual([])
    expect(await ended(a.client, run!.id)).toMatchObject({ status: 'succeeded', createdBy: 'schedule' })
    expect(w.seen.at(-1)?.operations[0]).toMatchObject({ operation: 'action' })
    expect((await rowOf(w.name))?.next_at).toMatch(/-01-01T00:00:00.000Z$/)
    await w.close()
  })

  it('are started by the server itself', async () => {
    const w = await world()
    await makeDue(w.name)
    const run = await until('its run', async () => (await actionRuns(w.name))[0])
    expect((await ended(a.client, run.id)).status).toBe('succeeded')
    await w.close()
  })

  it('make up for the times of an outage with one run', async () => {
    const w = await world([backup('0 * * * *', '30 * * * *')])
    await makeDue(w.name, '3 days')
    await both()
    await both()
    expect(await actionRuns(w.name)).toHaveLength(1)
    const next = Date.parse((await rowOf(w.name))!.next_at!)
    expect(next).toBeGreaterThan(Date.now())
    expect(next).toBeLessThanOrEqual(Date.now() + 1_800_000)
    await w.close()
  })

  it('follow what a newer version of the app says, and keep their time when it says the same', async () => {
    const w = await world()
    const before = await rowOf(w.name)
    await syncApp(w.name, [backup(YEARLY), action('other', [{ type: 'manual' }])])
    expect(await rowOf(w.name)).toEqual(before)
    await syncApp(w.name, [backup('0 0 1 2 *')])
    expect((await rowOf(w.name))?.next_at).toMatch(/-02-01T00:00:00.000Z$/)
    await syncApp(w.name, [action('backup', [{ type: 'manual' }])])
    expect(await rowOf(w.name)).toBeUndefined()
    await w.close()
  })

  it('pass a time over while the customer has paused the agent, and say so once', async () => {
    const w = await world()
    const { id } = await installOf(w.name)
    const pause = (at: string | null) =>
      a.context.pool.query('update agent set paused_at = $2 where install_id = $1', [id, at])
    await pause(new Date().toISOString())
    for (let i = 0; i < 3; i++) {
      await makeDue(w.name)
      await both()
    }
    expect(await actionRuns(w.name)).toEqual([])
    expect(await auditOf(a, id, 'backup')).toEqual(['action.passed_over ok'])
    await pause(null)
    await makeDue(w.name)
    await both()
    expect(await actionRuns(w.name)).toHaveLength(1)
    expect((await rowOf(w.name))?.passed_over).toBeNull()
    await w.close()
  })

  it('pass a time over while their last run is open, also when somebody else began it', async () => {
    const w = await world()
    await w.close()
    const params = { ref: w.name, name: 'backup' }
    const { id } = await a.client.call('actions.run', { params })
    await makeDue(w.name)
    await both()
    expect(await actionRuns(w.name)).toHaveLength(1)
    expect((await rowOf(w.name))?.passed_over).toBe(`its run ${id} has not ended`)
    await a.client.call('runs.cancel', { params: { id } })
    await makeDue(w.name)
    await both()
    expect(await actionRuns(w.name)).toHaveLength(2)
  })

  it('pass a time over while the install is not active, and end with it', async () => {
    const w = await world()
    const { install, run } = await newInstall(a.client, `${w.name}-late`, w.name)
    await makeDue(install.name)
    await both()
    expect(await actionRuns(install.name)).toEqual([])
    expect((await rowOf(install.name))?.passed_over).toBe('the install is provisioning')
    await a.client.call('runs.cancel', { params: { id: run.id } })
    const gone = await a.client.call('installs.deprovision', { params: { ref: w.name } })
    await ended(a.client, gone.id)
    await makeDue(w.name)
    await both()
    expect(await rowOf(w.name)).toBeUndefined()
    await w.close()
  })

  it('are refused with a schedule that cannot be read', async () => {
    const sent = syncApp('broken', [backup('every day'), action('other', [{ type: 'cron' }])])
    await expect(sent).rejects.toMatchObject({
      code: 'bad_app',
      problems: [{ path: 'actions.backup.triggers.0.cron' }, { path: 'actions.other.triggers.0.cron' }],
    })
  })
})

describe('actions that had schedules before schedules acted', () => {
  it('are noted for each install by the migration, and begin with their next time', async () => {
    const database = await createTestDatabase()
    const pool = new Pool({ connectionString: database.url })
    try {
      await migrate(pool, migrations.slice(0, 2))
      const triggers = [
        { type: 'cron', cron: '0 1 * * *' },
        { type: 'manual' },
        { type: 'cron', cron: YEARLY },
      ]
      const content = {
        actions: [
          { name: 'backup', triggers },
          { name: 'idle', triggers: [] },
        ],
      }
      await pool.query(`insert into app values ('app_1', 'shop', now())`)
      await pool.query(
        `insert into app_version values ('v_1', 'app_1', 1, '{}', 'd', now()), ('v_2', 'app_1', 2, $1, 'd', now())`,
        [JSON.stringify(content)],
      )
      for (const [id, status] of [
        ['one', 'active'],
        ['two', 'deprovisioned'],
      ])
        await pool.query(
          `insert into install (id, name, app_id, status, sandbox_type, sandbox_config, inputs, created_at)
           values ($1, $1, 'app_1', $2, 'none', '{}', '{}', now())`,
          [id, status],
        )
      await migrate(pool, migrations)
      const { rows } = await pool.query('select install_id, action, schedules, next_at from install_action')
      expect(rows).toEqual([
        { install_id: 'one', action: 'backup', schedules: ['0 1 * * *', YEARLY], next_at: null },
      ])
    } finally {
      await pool.end()
      await database.drop()
    }
  })

  it('get their next time, and no run, when the server first sees them', async () => {
    const tenant = await startTestTenant()
    try {
      const w = await plannedWorld(tenant, [component('db')], { actions: [backup(YEARLY)] })
      await tenant.context.pool.query('update install_action set next_at = null')
      await startDueActions(tenant.context)
      await nothingDue(tenant)
      const { rows } = await tenant.context.pool.query('select next_at from install_action')
      expect(Date.parse(rows[0].next_at)).toBeGreaterThan(Date.now())
      const { items } = await tenant.client.call('runs.list', { query: { install: w.name } })
      expect(items.map(({ kind }) => kind)).toEqual(['provision'])
      await w.close()
    } finally {
      await tenant.stop()
    }
  })
})
