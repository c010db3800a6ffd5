import type { App, Component, JobManifest } from '@tenon/core'
import { componentJobConfig, type PlanResult } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkDrift } from '../schedules/drift.ts'
import { action, planned, plannedWorld, runsOf } from '../testing/planned-world.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { component, PLAN, plan } from '../testing/world.ts'

describe('deploys that are planned first', () => {
  let server: TestTenant

  beforeAll(async () => {
    server = await startTestTenant()
  })
  afterAll(() => server.stop())

  const world = (components: Component[], rest: Partial<App> = {}) => plannedWorld(server, components, rest)
  const run = (id: string) => runsOf(server).run(id)
  const stepOf = (id: string, key: string) => runsOf(server).stepOf(id, key)
  const statuses = (id: string) => runsOf(server).statuses(id)

  it('apply exactly the plan that was made', async () => {
    const w = await world([planned('db')])
    const { id } = await w.deploy()
    expect(await statuses(id)).toEqual({
      'sync:db': 'succeeded',
      'plan:db': 'succeeded',
      'deploy:db': 'succeeded',
    })
    expect(w.seen.map((m) => [m.kind, m.operations[0]?.approvedPlan])).toEqual([
      ['sync', null],
      ['plan', null],
      ['deploy', PLAN],
    ])
    expect((await stepOf(id, 'plan:db')).plan).toMatchObject({ digest: PLAN, hasChanges: true })
    await w.close()
  })

  it('leave out what would change nothing and is healthy, and say so', async () => {
    const w = await world([planned('db'), planned('loud', { settings: { skipNoops: false } })])
    w.answer((m) => (m.kind === 'plan' ? { result: { plan: plan({ hasChanges: false }) } } : {}))
    const { id } = await w.deploy()
    expect(await statuses(id)).toMatchObject({ 'deploy:db': 'skipped', 'deploy:loud': 'succeeded' })
    expect((await stepOf(id, 'deploy:db')).message).toMatch(/nothing changes/)
    w.answer((m) =>
      m.kind === 'plan' ? { result: { plan: plan({ hasChanges: false, healthy: false }) } } : {},
    )
    expect(await statuses((await w.deploy()).id)).toMatchObject({ 'deploy:db': 'succeeded' })
    await w.close()
  })

  it('wait for somebody who approves this very plan, and say that they wait', async () => {
    const w = await world([planned('db')])
    await server.client.call('installs.update', { params: { ref: w.name }, body: { approval: 'prompt' } })
    const { id } = await w.deploy()
    const waiting = await until('the approval', async () => {
      const found = await run(id)
      return found.waiting.some(({ code }) => code === 'approval') ? found : undefined
    })
    const step = waiting.steps.find((s) => s.kind === 'approval')!
    const params = { id, step: step.id }
    const other = `sha256:${'c'.repeat(64)}`
    await expect(
      server.client.call('steps.approve', { params, body: { digest: other } }),
    ).rejects.toMatchObject({
      code: 'wrong_state',
    })
    await server.client.call('steps.approve', { params, body: { digest: PLAN } })
    expect(await statuses(id)).toMatchObject({ 'approval:db': 'succeeded', 'deploy:db': 'succeeded' })

    const second = await w.deploy()
    const again = await until('the second approval', async () => {
      const found = await stepOf(second.id, 'approval:db')
      return found.status === 'active' ? found : undefined
    })
    const of = { id: second.id, step: again.id }
    await server.client.call('steps.reject', { params: of, body: { reason: 'not today' } })
    expect(await statuses(second.id)).toMatchObject({ 'approval:db': 'canceled', 'deploy:db': 'canceled' })
    expect(w.seen.filter((m) => m.kind === 'deploy')).toHaveLength(1)
    await w.close()
  })

  it('need nobody when policies pass and the component says that this is enough', async () => {
    const w = await world([planned('db', { settings: { autoApproveOnPoliciesPassing: true } })])
    await server.client.call('installs.update', { params: { ref: w.name }, body: { approval: 'prompt' } })
    const { id } = await w.deploy()
    expect(await statuses(id)).toMatchObject({ 'approval:db': 'succeeded', 'deploy:db': 'succeeded' })
    const findings: PlanResult['findings'] = [{ policy: 'p', outcome: 'warn', message: 'careful' }]
    w.answer((m) => (m.kind === 'plan' ? { result: { plan: plan({ findings }) } } : {}))
    const warned = await w.deploy()
    await until('the approval', async () => (await stepOf(warned.id, 'approval:db')).status === 'active')
    await server.client.call('runs.cancel', { params: { id: warned.id } })
    expect(await statuses(warned.id)).toMatchObject({ 'approval:db': 'canceled' })
    await w.close()
  })

  it('are tried again with a new plan when the component allows it, unless the plugin says that it is of no use', async () => {
    const w = await world([planned('db', { settings: { maxAutoRetries: 1 } })])
    w.answer((m) =>
      m.kind === 'deploy' ? { outcome: 'failed', reason: 'exit', exitCode: 1, message: 'broken' } : {},
    )
    const { id } = await w.deploy()
    const waiting = await until('the second try', async () => {
      const found = await run(id)
      return found.waiting.some(({ code }) => code === 'retrying') ? found : undefined
    })
    const jobs = await server.client.call('jobs.list', { query: { install: w.name, component: 'db' } })
    const failed = jobs.items.find(({ kind, runId }) => kind === 'deploy' && runId === id)
    expect(waiting.waiting[0]?.since).toBe(failed?.finishedAt)
    expect(waiting.waiting[0]?.message).toMatch(/^deploy:db failed once \(broken\) and is tried again at/)
    expect(await statuses(id)).toMatchObject({ 'plan:db': 'succeeded', 'deploy:db': 'failed' })
    expect(w.seen.map((m) => m.kind)).toEqual(['sync', 'plan', 'deploy', 'plan', 'deploy'])
    w.answer((m) =>
      m.kind === 'plan' ? { outcome: 'failed', reason: 'exit', exitCode: 1, result: { final: true } } : {},
    )
    const denied = await w.deploy()
    expect(await statuses(denied.id)).toMatchObject({ 'plan:db': 'failed', 'deploy:db': 'canceled' })
    await w.close()
  })

  it('go on without a step that somebody skips, and roll back to an earlier build', async () => {
    const w = await world([component('db'), component('web', ['db'])])
    const isOfDb = (m: JobManifest) => m.kind === 'deploy' && m.operations[0]?.component === 'db'
    w.answer((m) => (isOfDb(m) ? { outcome: 'failed', reason: 'exit', exitCode: 1 } : {}))
    const { id } = await w.deploy()
    expect(await statuses(id)).toMatchObject({ 'deploy:db': 'failed', 'deploy:web': 'canceled' })
    const failed = await stepOf(id, 'deploy:db')
    await server.client.call('steps.skip', { params: { id, step: failed.id } })
    await until('the run', async () => (await run(id)).status === 'succeeded')
    w.answer(() => ({}))
    const deploys = await server.client.call('deploys.list', { params: { ref: w.name }, query: {} })
    const first = deploys.items.findLast((d) => d.component === 'web')!
    const back = await server.client.call('deploys.rollback', { params: { ref: w.name, id: first.id } })
    expect(await statuses(back.id)).toEqual({ 'sync:web': 'succeeded', 'deploy:web': 'succeeded' })
    const [newest] = (await server.client.call('deploys.list', { params: { ref: w.name }, query: {} })).items
    expect(newest).toMatchObject({ component: 'web', buildId: first.buildId, runId: back.id })
    await w.close()
  })

  it('bring only what changed, and after a change of inputs exactly what reads them', async () => {
    const input = { displayName: '', description: '', group: '', required: false, internal: false } as const
    const w = await world(
      [
        { ...component('one'), config: { size: '{{ .nuon.inputs.inputs.size }}' } },
        { ...component('two'), config: { key: '{{ .nuon.inputs.inputs.key }}' } },
      ],
      {
        inputs: [
          { ...input, name: 'size', type: 'number', default: 1, sensitive: false, userConfigurable: true },
          { ...input, name: 'key', type: 'string', sensitive: true, userConfigurable: false },
        ],
      },
    )
    expect((await w.deploy({ changed: true })).steps).toEqual([])
    const params = { ref: w.name }
    await expect(
      server.client.call('installs.update', { params, body: { inputs: { size: 'big', key: 'x' } } }),
    ).rejects.toMatchObject({ code: 'bad_request' })
    const { runs, install } = await server.client.call('installs.update', {
      params,
      body: { inputs: { size: '2' } },
    })
    expect(install.inputs).toEqual({ size: 2 })
    expect(await statuses(runs[0]!.id)).toEqual({ 'sync:one': 'succeeded', 'deploy:one': 'succeeded' })
    const config = componentJobConfig.parse(w.seen.at(-1)?.operations[0]?.config)
    expect(config).toMatchObject({ inputs: { size: 2 }, secrets: [], install: { name: w.name } })
    await w.deploy({ components: ['two'] })
    await until('the second', () =>
      w.seen.some((m) => m.operations[0]?.component === 'two' && m.kind === 'deploy'),
    )
    const two = componentJobConfig.parse(w.seen.at(-1)?.operations[0]?.config)
    expect(two).toMatchObject({ sensitiveInputs: ['key'], secrets: ['input--key'] })
    await w.close()
  })

  it('follow a switch: off is torn down, on is deployed, and off is not deployed', async () => {
    const w = await world([
      component('db'),
      { ...component('extra', ['db']), settings: { toggleable: true } },
    ])
    const params = { ref: w.name }
    const off = await server.client.call('installs.update', { params, body: { toggles: { extra: false } } })
    expect(await statuses(off.runs[0]!.id)).toEqual({ 'destroy:extra': 'succeeded' })
    await expect(w.deploy({ components: ['extra'] })).rejects.toMatchObject({ code: 'wrong_state' })
    expect(Object.keys(await statuses((await w.deploy()).id))).toEqual(['sync:db', 'deploy:db'])
    const on = await server.client.call('installs.update', { params, body: { toggles: { extra: true } } })
    expect(await statuses(on.runs[0]!.id)).toEqual({ 'sync:extra': 'succeeded', 'deploy:extra': 'succeeded' })
    await expect(
      server.client.call('installs.update', { params, body: { toggles: { db: false } } }),
    ).rejects.toMatchObject({ code: 'bad_request' })
    await w.close()
  })

  it('are looked after on a schedule: a drift is a state and an audit entry, and goes again', async () => {
    const w = await world([planned('db', { settings: { driftSchedule: '* * * * * *' } })])
    const drift = async () => {
      const { components } = await server.client.call('installs.get', { params: { ref: w.name } })
      return components[0]!.drift
    }
    const found = await until('the drift', drift)
    expect(found.plan.changes[0]?.address).toBe('thing.a')
    w.answer((m) => (m.kind === 'plan' ? { result: { plan: plan({ hasChanges: false }) } } : {}))
    // The first look was the loop's own, which comes every ten seconds.
    await until('its end', async () => {
      await checkDrift(server.context)
      return (await drift()) === null
    })
    const { install } = { install: await server.client.call('installs.get', { params: { ref: w.name } }) }
    const { entries } = await server.client.call('audit.entries', {
      params: { chain: install.id },
      query: { limit: 1000 },
    })
    const actions = entries.map(({ body }) => (JSON.parse(body) as { action: string }).action)
    expect(actions).toContain('component.drifted')
    expect(actions).toContain('component.drift_gone')
    await w.close()
  })

  it('run one action for two triggers, and actions of inputs though no component reads them', async () => {
    const input = { displayName: '', description: '', group: '', required: false, internal: false } as const
    const w = await world([component('db')], {
      inputs: [
        { ...input, name: 'size', type: 'number', default: 1, sensitive: false, userConfigurable: true },
      ],
      actions: [
        action('twice', [{ type: 'post-deploy-all-components' }, { type: 'post-provision' }]),
        action('typed', [{ type: 'post-update-inputs' }]),
      ],
    })
    const { items } = await server.client.call('runs.list', { query: { install: w.name } })
    const provision = items.find(({ kind }) => kind === 'provision')!
    expect(await statuses(provision.id)).toMatchObject({
      'action:twice@post-deploy-all-components': 'succeeded',
      'action:twice@post-provision': 'succeeded',
    })
    const body = { inputs: { size: 2 } }
    const { runs } = await server.client.call('installs.update', { params: { ref: w.name }, body })
    expect(await statuses(runs[0]!.id)).toEqual({ sync: 'succeeded', 'action:typed': 'succeeded' })
    await w.close()
  })

  it('put secrets into the cluster first, and take them out last, by name alone', async () => {
    const secret = {
      displayName: '',
      description: '',
      required: true,
      autoGenerate: false,
      format: '' as const,
    }
    const places = [{ namespace: 'other', name: 'key', key: 'token' }]
    const w = await world([component('db')], {
      secrets: [
        { ...secret, name: 'key', kubernetes: { namespace: 'shop', name: 'key' }, kubernetesTargets: places },
        { ...secret, name: 'unsynced' },
      ],
    })
    const id = (await w.deploy()).id
    expect(await statuses(id)).toMatchObject({
      sync: 'succeeded',
      secrets: 'succeeded',
      'deploy:db': 'succeeded',
    })
    const made = w.seen.findLast(({ operations }) => operations[0]?.plugin.name === 'kubernetes_secrets')!
    expect(made).toMatchObject({ kind: 'deploy', operations: [{ operation: 'deploy', component: null }] })
    const config = componentJobConfig.parse(made.operations[0]?.config)
    expect(config.secrets).toEqual(['key'])
    expect(config.component['targets']).toEqual([
      { secret: 'key', required: true, isEncoded: false, namespace: 'shop', name: 'key', key: 'value' },
      { secret: 'key', required: true, isEncoded: false, namespace: 'other', name: 'key', key: 'token' },
    ])
    const synced = w.seen.find(({ kind, operations }) => kind === 'sync' && operations[0]?.component === null)
    expect(synced?.operations[0]?.artifacts.map(({ repository }) => repository)).toEqual([
      'tenon/plugins/kubernetes_secrets',
    ])
    const down = await server.client.call('installs.teardown', { params: { ref: w.name }, body: {} })
    expect(await statuses(down.id)).toMatchObject({
      'destroy:db': 'succeeded',
      'secrets-destroy': 'succeeded',
    })
    expect(w.seen.at(-1)).toMatchObject({ kind: 'destroy', operations: [{ operation: 'destroy' }] })
    await w.close()
  })

  it('take secrets out of the cluster that the app no longer keeps there, once', async () => {
    const kept = {
      displayName: '',
      description: '',
      required: false,
      autoGenerate: false,
      format: '' as const,
    }
    const key = { ...kept, name: 'key', kubernetes: { namespace: 'shop', name: 'key' } }
    const w = await world([component('db')], { secrets: [key] })
    const app = { name: w.name, displayName: w.name, description: '', components: [component('db')] }
    await server.client.call('apps.sync', { body: { app } })
    const plugin = ({ operations }: JobManifest) => operations[0]?.plugin.name
    w.answer((manifest) =>
      plugin(manifest) === 'kubernetes_secrets' ? { outcome: 'failed', reason: 'exit', exitCode: 1 } : {},
    )
    expect(await statuses((await w.deploy()).id)).toMatchObject({ 'secrets-destroy': 'failed' })
    w.answer(() => ({}))
    expect(await statuses((await w.deploy()).id)).toMatchObject({
      'deploy:db': 'succeeded',
      'secrets-destroy': 'succeeded',
    })
    expect(await statuses((await w.deploy()).id)).not.toHaveProperty('secrets-destroy')
    await w.close()
  })

  it('run an action on its own and around a deploy', async () => {
    const w = await world([component('db')], {
      actions: [action('check', [{ type: 'post-deploy-component', component: 'db' }]), action('by-hand', [])],
    })
    expect(await statuses((await w.deploy()).id)).toMatchObject({ 'action:check/db': 'succeeded' })
    const alone = await server.client.call('actions.run', { params: { ref: w.name, name: 'by-hand' } })
    expect(await statuses(alone.id)).toEqual({ sync: 'succeeded', 'action:by-hand': 'succeeded' })
    const config = componentJobConfig.parse(w.seen.at(-1)?.operations[0]?.config)
    expect(config).toMatchObject({ type: 'action', dependencies: ['db'] })
    expect(w.seen.at(-1)?.limits.timeoutSeconds).toBe(30)
    await w.close()
  })
})
