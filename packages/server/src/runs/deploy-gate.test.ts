import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { auditOf } from '../testing/audit.ts'
import {
  action,
  broken,
  NEWER,
  only,
  planned,
  plannedWorld,
  PRE_DEPLOY,
  runsOf,
  SIZE,
  type PlannedWorld,
} from '../testing/planned-world.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { component, ended, PLAN, plan } from '../testing/world.ts'

const refused = { code: 'not_approved', remedy: expect.stringMatching(/\S/) }

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
})
