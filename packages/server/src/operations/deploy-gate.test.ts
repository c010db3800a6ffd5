import type { App, JobManifest } from '@tenon/core'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { auditOf } from '../testing/audit.ts'
import { action, planned, plannedWorld, runsOf, type PlannedWorld } from '../testing/planned-world.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { component, ended, PLAN, plan } from '../testing/world.ts'

const NEWER = `sha256:${'d'.repeat(64)}`
const refused = { code: 'not_approved', remedy: expect.stringMatching(/\S/) }
const PRE_DEPLOY: Partial<App> = {
  actions: [action('check', [{ type: 'pre-deploy-component', component: 'db' }])],
}
const SIZE: NonNullable<App['inputs']>[number] = {
  name: 'size',
  displayName: '',
  description: '',
  group: '',
  type: 'number',
  default: 1,
  required: false,
  internal: false,
  sensitive: false,
  userConfigurable: true,
}
const broken = { outcome: 'failed', reason: 'exit', exitCode: 1, result: { final: true } } as const
const only = (kind: JobManifest['kind'], report: object) => (m: JobManifest) =>
  m.kind === kind ? report : {}

vi.setConfig({ testTimeout: 120_000 })

describe('no deploy runs past the plan, the approval or the action before it:', () => {
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

  it('a plan that a policy denied is not skipped', async () => {
    w = await plannedWorld(server, [planned('db')])
    w.answer(only('plan', broken))
    const { id } = await w.deploy()
    expect(await runs.statuses(id)).toMatchObject({ 'plan:db': 'failed', 'deploy:db': 'canceled' })
    await expect(runs.on('skip', id, 'plan:db')).rejects.toMatchObject(refused)
    expect(deploys()).toHaveLength(0)
  })

  it('an approval is skipped neither before it waits nor after it was refused', async () => {
    w = await plannedWorld(server, [component('base'), planned('db', { dependencies: ['base'] })])
    await w.prompt()
    w.answer((m) => (m.operations[0]?.component === 'base' && m.kind === 'deploy' ? broken : {}))
    const { id } = await w.deploy()
    const approveBase = async () => {
      await runs.waitFor(id, 'approval:base', 'active')
      await runs.approve(id, 'approval:base')
    }
    await approveBase()
    await ended(server.client, id)
    await expect(runs.on('skip', id, 'approval:db')).rejects.toMatchObject({ code: 'wrong_state' })
    w.answer(() => ({}))
    await runs.on('retry', id, 'deploy:base')
    await approveBase()
    await runs.waitFor(id, 'approval:db', 'active')
    await runs.reject(id, 'approval:db')
    await ended(server.client, id)
    await expect(runs.on('skip', id, 'approval:db')).rejects.toMatchObject({ code: 'wrong_state' })
    expect(deploys().filter((m) => m.operations[0]?.component === 'db')).toHaveLength(0)
  })

  it('an approval that waits for its plan is not skipped', async () => {
    w = await plannedWorld(server, [component('base'), planned('db', { dependencies: ['base'] })])
    await w.prompt()
    const first = await w.deploy()
    await runs.waitFor(first.id, 'approval:base', 'active')
    const queued = await w.deploy()
    await expect(runs.on('skip', queued.id, 'approval:db')).rejects.toMatchObject(refused)
    await expect(runs.on('skip', queued.id, 'plan:db')).rejects.toMatchObject(refused)
    await server.client.call('runs.cancel', { params: { id: queued.id } })
    await server.client.call('runs.cancel', { params: { id: first.id } })
  })

  it('an action before a deploy is not skipped; one after it is', async () => {
    const after = action('later', [{ type: 'post-deploy-component', component: 'db' }])
    w = await plannedWorld(server, [component('db')], { actions: [...PRE_DEPLOY.actions!, after] })
    w.answer(only('action', broken))
    const { id } = await w.deploy()
    await ended(server.client, id)
    await expect(runs.on('skip', id, 'action:check/db')).rejects.toMatchObject(refused)
    w.answer(() => ({}))
    await runs.on('retry', id, 'action:check/db')
    expect(await runs.statuses(id)).toMatchObject({ 'deploy:db': 'succeeded' })
    w.answer((m) => (JSON.stringify(m).includes('"later"') ? broken : {}))
    const second = await w.deploy()
    expect(await runs.statuses(second.id)).toMatchObject({ 'action:later/db': 'failed' })
    await runs.on('skip', second.id, 'action:later/db')
    await until('the run', async () => (await runs.run(second.id)).status === 'succeeded', 30_000)
  })

  it('a deploy that is tried again waits for its new plan, approval and action', async () => {
    w = await plannedWorld(server, [planned('db')], PRE_DEPLOY)
    await w.prompt()
    w.answer(only('deploy', broken))
    const { id } = await w.deploy()
    await runs.waitFor(id, 'approval:db', 'active')
    await runs.approve(id, 'approval:db')
    await ended(server.client, id)
    w.answer((m) => (m.kind === 'plan' ? { result: { plan: plan({ digest: NEWER }) } } : {}))
    await runs.on('retry', id, 'deploy:db')
    await runs.waitFor(id, 'approval:db', 'active')
    expect(deploys()).toHaveLength(1)
    await runs.approve(id, 'approval:db', NEWER)
    expect(await runs.statuses(id)).toMatchObject({ 'deploy:db': 'succeeded' })
    expect(deploys().map((m) => m.operations[0]?.approvedPlan)).toEqual([PLAN, NEWER])
    expect(w.seen.filter((m) => m.kind === 'action')).toHaveLength(2)
  })

  it('an approved deploy waits for an action before all deploys that is done again', async () => {
    w = await plannedWorld(server, [planned('db'), planned('web')], {
      actions: [action('open', [{ type: 'pre-deploy-all-components' }])],
    })
    await w.prompt()
    w.answer(only('deploy', broken))
    const { id } = await w.deploy()
    await runs.waitFor(id, 'approval:web', 'active')
    await runs.waitFor(id, 'approval:db', 'active')
    await runs.approve(id, 'approval:db')
    await runs.waitFor(id, 'deploy:db', 'failed')
    w.answer(only('action', broken))
    await runs.on('retry', id, 'deploy:db')
    await runs.waitFor(id, 'action:open', 'failed')
    await runs.approve(id, 'approval:web')
    expect(await runs.statuses(id)).toMatchObject({ 'deploy:web': 'canceled', 'deploy:db': 'canceled' })
    w.answer(() => ({}))
    await runs.on('retry', id, 'action:open')
    await runs.waitFor(id, 'approval:web', 'active')
    await runs.approve(id, 'approval:web')
    await runs.waitFor(id, 'approval:db', 'active')
    await runs.approve(id, 'approval:db')
    await runs.waitFor(id, 'deploy:db', 'succeeded')
    await runs.waitFor(id, 'deploy:web', 'succeeded')
  })

  it('a refused approval is asked again only about a new plan', async () => {
    w = await plannedWorld(server, [planned('db')])
    await w.prompt()
    const { id } = await w.deploy()
    await runs.waitFor(id, 'approval:db', 'active')
    await runs.reject(id, 'approval:db')
    await ended(server.client, id)
    w.answer((m) => (m.kind === 'plan' ? { result: { plan: plan({ digest: NEWER }) } } : {}))
    await runs.on('retry', id, 'approval:db')
    await runs.waitFor(id, 'approval:db', 'active')
    await expect(runs.approve(id, 'approval:db', PLAN)).rejects.toMatchObject({ code: 'wrong_state' })
    await runs.approve(id, 'approval:db', NEWER)
    expect(await runs.statuses(id)).toMatchObject({ 'deploy:db': 'succeeded' })
  })

  it('a plan job that names no plan is none', async () => {
    w = await plannedWorld(server, [planned('db')])
    w.answer(only('plan', { result: {} }))
    const { id } = await w.deploy()
    expect(await runs.statuses(id)).toMatchObject({ 'plan:db': 'failed', 'deploy:db': 'canceled' })
    expect((await runs.stepOf(id, 'plan:db')).message).toMatch(/named no plan/)
  })

  it('inputs and overrides that change after the approval make a new plan, which is asked about again', async () => {
    w = await plannedWorld(server, [planned('db', { config: { size: '{{ .nuon.inputs.inputs.size }}' } })], {
      inputs: [SIZE],
    })
    await w.prompt()
    const { id } = await w.deploy()
    await runs.waitFor(id, 'approval:db', 'active')
    const params = { ref: w.name }
    await server.client.call('installs.update', { params, body: { inputs: { size: 2 }, deploy: false } })
    await runs.approve(id, 'approval:db')
    await until('a second plan', () => w.seen.filter((m) => m.kind === 'plan').length === 2, 30_000)
    await runs.waitFor(id, 'approval:db', 'active')
    expect(deploys()).toHaveLength(0)
    const overrides = { db: { tf_vars: { size: 3 } } }
    await server.client.call('installs.update', { params, body: { overrides, deploy: false } })
    await runs.approve(id, 'approval:db')
    await until('a third plan', () => w.seen.filter((m) => m.kind === 'plan').length === 3, 30_000)
    await runs.waitFor(id, 'approval:db', 'active')
    await runs.approve(id, 'approval:db')
    expect(await runs.statuses(id)).toMatchObject({ 'deploy:db': 'succeeded' })
    const [last] = deploys()
    expect(last?.operations[0]?.config).toMatchObject({ inputs: { size: 2 }, overrides: overrides.db })
    const { id: install } = await server.client.call('installs.get', { params })
    expect(await auditOf(server, install)).toContain('step.replanned ok')
  })

  it('a run that was decided before approvals were asked for waits for one as well', async () => {
    w = await plannedWorld(server, [planned('db')])
    await w.prompt()
    const first = await w.deploy()
    await runs.waitFor(first.id, 'approval:db', 'active')
    const params = { ref: w.name }
    await server.client.call('installs.update', { params, body: { approval: 'approve-all' } })
    const second = await w.deploy()
    expect(second.steps.map((s) => s.key)).not.toContain('approval:db')
    await w.prompt()
    await runs.approve(first.id, 'approval:db')
    await runs.waitFor(second.id, 'approval:db', 'active')
    expect(deploys()).toHaveLength(1)
    await runs.approve(second.id, 'approval:db')
    expect(await runs.statuses(second.id)).toMatchObject({ 'deploy:db': 'succeeded' })
    expect((await runs.run(second.id)).steps.map((s) => s.key)).toEqual([
      'sync:db',
      'plan:db',
      'approval:db',
      'deploy:db',
    ])
  })

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
