import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { auditOf } from '../testing/audit.ts'
import {
  broken,
  NEWER,
  only,
  plannedWorld,
  PRE_DEPLOY,
  runsOf,
  SIZE,
  type PlannedWorld,
} from '../testing/planned-world.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { component, ended, PLAN } from '../testing/world.ts'

vi.setConfig({ testTimeout: 120_000 })

describe('where somebody must approve,', () => {
  let server: TestTenant
  let runs: ReturnType<typeof runsOf>
  let w: PlannedWorld
  beforeAll(async () => {
    server = await startTestTenant()
    runs = runsOf(server)
  })
  afterAll(() => server.stop())
  afterEach(async () => {
    await w.close()
    await server.assertSound()
  })
  const deploys = () => w.seen.filter((m) => m.kind === 'deploy')

  it('what makes no plans waits for somebody who approves exactly what would be deployed', async () => {
    w = await plannedWorld(server, [component('db')])
    await w.prompt()
    const { id } = await w.deploy()
    const { asked } = await runs.waitFor(id, 'approval:db', 'active')
    const [there] = (await server.client.call('installs.get', { params: { ref: w.name } })).components
    expect(asked).toMatchObject({ replaces: there?.artifact, configChanges: false })
    expect(asked?.artifact.digest).toBe(there?.artifact)
    for (const digest of [PLAN, null])
      await expect(runs.approve(id, 'approval:db', digest)).rejects.toMatchObject({ code: 'wrong_state' })
    expect(deploys()).toHaveLength(0)
    await runs.approve(id, 'approval:db')
    expect(await runs.statuses(id)).toEqual({
      'sync:db': 'succeeded',
      'approval:db': 'succeeded',
      'deploy:db': 'succeeded',
    })
    const { id: install } = await server.client.call('installs.get', { params: { ref: w.name } })
    expect(await auditOf(server, install)).toContain('step.approved ok')
  })

  it('what makes no plans is left as it is when somebody rejects it, and is asked about again', async () => {
    w = await plannedWorld(server, [component('db')])
    await w.prompt()
    const { id } = await w.deploy()
    await runs.waitFor(id, 'approval:db', 'active')
    await runs.reject(id, 'approval:db')
    expect(await runs.statuses(id)).toMatchObject({ 'approval:db': 'canceled', 'deploy:db': 'canceled' })
    await runs.on('retry', id, 'approval:db')
    await runs.waitFor(id, 'approval:db', 'active')
    w.answer(only('deploy', broken))
    await runs.approve(id, 'approval:db')
    expect(await runs.statuses(id)).toMatchObject({ 'deploy:db': 'failed' })
    w.answer(() => ({}))
    await runs.on('retry', id, 'deploy:db')
    await runs.waitFor(id, 'approval:db', 'active')
    expect(deploys()).toHaveLength(1)
    await runs.approve(id, 'approval:db')
    expect(await runs.statuses(id)).toMatchObject({ 'deploy:db': 'succeeded' })
  })

  it('inputs that change after what makes no plans was approved are asked about again', async () => {
    w = await plannedWorld(
      server,
      [{ ...component('db'), config: { size: '{{ .nuon.inputs.inputs.size }}' } }],
      { inputs: [SIZE] },
    )
    await w.prompt()
    const { id } = await w.deploy()
    const { asked: first } = await runs.waitFor(id, 'approval:db', 'active')
    const params = { ref: w.name }
    await server.client.call('installs.update', { params, body: { inputs: { size: 2 }, deploy: false } })
    await runs.approve(id, 'approval:db')
    const { asked: second } = await runs.waitFor(id, 'approval:db', 'active')
    expect(deploys()).toHaveLength(0)
    expect(second).toMatchObject({ artifact: first!.artifact, configChanges: true })
    expect(second!.digest).not.toBe(first!.digest)
    await expect(runs.approve(id, 'approval:db', first!.digest)).rejects.toMatchObject({
      code: 'wrong_state',
    })
    await runs.approve(id, 'approval:db')
    expect(await runs.statuses(id)).toMatchObject({ 'deploy:db': 'succeeded' })
    expect(deploys()[0]?.operations[0]?.config).toMatchObject({ inputs: { size: 2 } })
  })

  it('what makes no plans is asked about again for inputs that no template names, since it may read them all', async () => {
    w = await plannedWorld(server, [component('db')], { inputs: [SIZE] })
    await w.prompt()
    const { id } = await w.deploy()
    await runs.waitFor(id, 'approval:db', 'active')
    const params = { ref: w.name }
    await server.client.call('installs.update', { params, body: { inputs: { size: 2 }, deploy: false } })
    await runs.approve(id, 'approval:db')
    const { asked } = await runs.waitFor(id, 'approval:db', 'active')
    expect(deploys()).toHaveLength(0)
    expect(asked).toMatchObject({ configChanges: true })
    w.answer(only('deploy', broken))
    await runs.approve(id, 'approval:db')
    expect(await runs.statuses(id)).toMatchObject({ 'deploy:db': 'failed' })
    w.answer(() => ({}))
    await runs.on('retry', id, 'deploy:db')
    // What failed is not there: it differs from what was deployed last as much as before.
    expect((await runs.waitFor(id, 'approval:db', 'active')).asked).toEqual(asked)
    await runs.approve(id, 'approval:db')
    expect(await runs.statuses(id)).toMatchObject({ 'deploy:db': 'succeeded' })
    const next = await w.deploy()
    const { asked: after } = await runs.waitFor(next.id, 'approval:db', 'active')
    expect(after).toMatchObject({ configChanges: false })
    await runs.reject(next.id, 'approval:db')
  })

  it('a new plugin is brought there, and asked about, before it deploys what was approved with another', async () => {
    w = await plannedWorld(server, [component('db')])
    await w.prompt()
    const { id } = await w.deploy()
    await runs.waitFor(id, 'approval:db', 'active')
    const db = server.context.db.updateTable('plugin').where('name', '=', 'script')
    const before = await server.context.db
      .selectFrom('plugin')
      .select('digest')
      .where('name', '=', 'script')
      .executeTakeFirstOrThrow()
    try {
      await db.set({ digest: NEWER }).execute()
      await runs.approve(id, 'approval:db')
      await runs.waitFor(id, 'approval:db', 'active')
      expect(deploys()).toHaveLength(0)
      const syncs = w.seen.filter((m) => m.kind === 'sync')
      expect(syncs.at(-1)?.operations[0]?.artifacts).toContainEqual(
        expect.objectContaining({ name: 'plugin', digest: NEWER }),
      )
      await runs.approve(id, 'approval:db')
      expect(await runs.statuses(id)).toMatchObject({ 'deploy:db': 'succeeded' })
      expect(deploys()[0]?.operations[0]?.plugin.digest).toBe(NEWER)
    } finally {
      await db.set(before).execute()
    }
  })

  it('nobody is asked about a deploy that is left out', async () => {
    w = await plannedWorld(server, [component('db'), component('web', ['db'])])
    await w.prompt()
    const { id } = await w.deploy()
    await runs.waitFor(id, 'approval:db', 'active')
    await runs.on('skip', id, 'deploy:db')
    await runs.on('skip', id, 'deploy:web')
    expect((await ended(server.client, id)).status).toBe('succeeded')
    expect(await runs.statuses(id)).toMatchObject({ 'approval:db': 'skipped', 'approval:web': 'skipped' })
  })

  it('a retry whose time has come and that waits for somebody is not looked at again and again', async () => {
    w = await plannedWorld(server, [{ ...component('db'), settings: { maxAutoRetries: 1 } }])
    await w.prompt()
    const { id } = await w.deploy()
    await runs.waitFor(id, 'approval:db', 'active')
    w.answer(only('deploy', { ...broken, result: {} }))
    await runs.approve(id, 'approval:db')
    await until('the retry', async () => (await runs.stepOf(id, 'deploy:db')).notBefore !== null)
    w.answer(() => ({}))
    await runs.waitFor(id, 'approval:db', 'active')
    expect((await runs.stepOf(id, 'deploy:db')).notBefore).toBeNull()
    await runs.approve(id, 'approval:db')
    expect(await runs.statuses(id)).toMatchObject({ 'deploy:db': 'succeeded' })
  })

  it('what makes no plans is asked about also when approvals are asked for after the run was decided', async () => {
    w = await plannedWorld(server, [component('db')], PRE_DEPLOY)
    await w.prompt()
    const first = await w.deploy()
    await runs.waitFor(first.id, 'approval:db', 'active')
    await server.client.call('installs.update', {
      params: { ref: w.name },
      body: { approval: 'approve-all' },
    })
    const second = await w.deploy()
    expect(second.steps.map((s) => s.key)).not.toContain('approval:db')
    await w.prompt()
    await runs.approve(first.id, 'approval:db')
    await runs.waitFor(second.id, 'approval:db', 'active')
    expect(deploys()).toHaveLength(1)
    await runs.approve(second.id, 'approval:db')
    expect(await runs.statuses(second.id)).toMatchObject({ 'deploy:db': 'succeeded' })
  })
})
