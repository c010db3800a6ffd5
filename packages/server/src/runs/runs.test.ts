import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { JobManifest } from '@tenon/core'
import { auditOf, auditProblems } from '../testing/audit.ts'
import {
  connectAgent,
  enrolTestAgent,
  finishedFrame,
  manifestOf,
  startedFrame,
  type TestAgent,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import {
  activeInstall,
  builtApp,
  component,
  ended,
  installAgent,
  newInstall,
  workAll,
} from '../testing/world.ts'

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
  await builtApp(tenant)
})
afterAll(() => tenant.stop())
afterEach(() => tenant.assertSound())

const run = (id: string) => tenant.client.call('runs.get', { params: { id } })
const steps = async (id: string) =>
  Object.fromEntries((await run(id)).steps.map((step) => [step.key, step.status]))
const deploy = (ref: string, components?: string[]) =>
  tenant.client.call('deploys.create', { params: { ref }, body: components ? { components } : {} })

/** Does jobs as they come until the run ends; `decide` may make some fail. */
async function runToEnd(agent: TestAgent, runId: string, decide?: (manifest: JobManifest) => object) {
  const stop = new AbortController()
  const working = workAll(agent, decide, stop.signal)
  const end = await ended(tenant.client, runId)
  stop.abort()
  await working
  return end
}

const failing = (kind: string, component: string) => (manifest: JobManifest) =>
  manifest.kind === kind && manifest.operations[0]!.component === component
    ? { outcome: 'failed' as const, message: 'it broke' }
    : {}

describe('a provision run', () => {
  it('makes the sandbox, waits for the agent, then syncs and deploys in the order of dependencies', async () => {
    const { joinToken } = await tenant.client.call('agents.joinToken', { body: { role: 'setup' } })
    const setup = await connectAgent(tenant.url, await enrolTestAgent(tenant.url, joinToken))
    const { run: provision, install } = await tenant.client.call('installs.create', {
      body: { name: 'whole', app: 'shop', sandbox: { type: 'local', config: { size: 1 } } },
    })
    const sandbox = manifestOf(await setup.next('job.assign'))
    expect(sandbox).toMatchObject({ kind: 'sandbox', target: { role: 'setup', installId: null } })
    setup.send({
      type: 'credential.request',
      requestId: 7,
      jobId: sandbox.jobId,
      fence: 1,
      want: 'join-token',
    })
    const grant = await setup.next('credential.grant')
    setup.send(startedFrame(sandbox))
    setup.send(finishedFrame(setup.identity, sandbox))
    await setup.next('job.settled')
    expect((await run(provision!.id)).waiting).toMatchObject([{ code: 'agent_enrolling' }])
    const { joinToken: granted } = grant.credential as { joinToken: string }
    const agent = await connectAgent(tenant.url, await enrolTestAgent(tenant.url, granted))
    const order: string[] = []
    const end = await runToEnd(agent, provision!.id, (manifest) => {
      order.push(`${manifest.kind}:${manifest.operations[0]!.component}`)
      return {}
    })
    expect(end.status).toBe('succeeded')
    expect(order.indexOf('deploy:db')).toBeGreaterThan(order.indexOf('sync:db'))
    expect(order.indexOf('deploy:web')).toBeGreaterThan(order.indexOf('deploy:db'))
    const after = await tenant.client.call('installs.get', { params: { ref: 'whole' } })
    expect(after).toMatchObject({ status: 'active', activeRun: null })
    expect(after.components.map((c) => [c.name, c.status])).toEqual([
      ['db', 'deployed'],
      ['web', 'deployed'],
    ])
    const audit = await auditOf(tenant, install.id)
    for (const fact of ['install.created', 'run.created', 'job.queued', 'job.assigned', 'job.started'])
      expect(audit).toContain(`${fact} ok`)
    for (const fact of ['credential.granted', 'job.succeeded', 'agent.enrolled', 'run.ended'])
      expect(audit).toContain(`${fact} ok`)
    await Promise.all([setup.close(), agent.close()])
  })

  it('cannot be decided for an app that is not built, and leaves nothing behind, not even an audit entry', async () => {
    await tenant.client.call('apps.sync', {
      body: {
        app: {
          name: 'bare',
          displayName: '',
          description: '',
          components: [{ name: 'a', type: 'script', dependencies: [], config: {} }],
        },
      },
    })
    const before = await tenant.client.call('audit.chains', {})
    await expect(newInstall(tenant.client, 'unbuilt', 'bare')).rejects.toMatchObject({ code: 'no_build' })
    await expect(tenant.client.call('installs.get', { params: { ref: 'unbuilt' } })).rejects.toMatchObject({
      code: 'not_found',
    })
    const after = await tenant.client.call('audit.chains', {})
    expect(after.chains.map((c) => c.chain)).toEqual(before.chains.map((c) => c.chain))
  })
})

describe('runs on one install', () => {
  it('go one after the other, and the one that waits says for what', async () => {
    const agent = await activeInstall(tenant, 'orderly')
    const first = await deploy('orderly', ['db'])
    const second = await deploy('orderly', ['web'])
    expect(second).toMatchObject({ status: 'queued', waiting: [{ code: 'run_ahead' }] })
    expect(second.waiting[0]!.message).toContain(first.id)
    expect(second.steps.map((s) => s.status)).toEqual(['pending', 'pending'])
    await runToEnd(agent, first.id)
    expect((await runToEnd(agent, second.id)).status).toBe('succeeded')
    await agent.close()
  })

  it('end in failure with the step that failed, and go on when it is retried', async () => {
    const agent = await activeInstall(tenant, 'retrying')
    const { id } = await deploy('retrying')
    expect((await runToEnd(agent, id, failing('deploy', 'db'))).status).toBe('failed')
    expect(await steps(id)).toEqual({
      'sync:db': 'succeeded',
      'deploy:db': 'failed',
      'sync:web': 'succeeded',
      'deploy:web': 'canceled',
    })
    const failed = (await run(id)).steps.find((s) => s.status === 'failed')!
    expect(failed.message).toBe('it broke')
    await tenant.client.call('steps.retry', { params: { id, step: failed.id } })
    expect((await runToEnd(agent, id)).status).toBe('succeeded')
    await expect(
      tenant.client.call('steps.retry', { params: { id, step: failed.id } }),
    ).rejects.toMatchObject({ code: 'wrong_state' })
    const { items } = await tenant.client.call('deploys.list', { params: { ref: 'retrying' }, query: {} })
    expect(items.filter((d) => d.runId === id).map((d) => d.status)).toEqual(['succeeded', 'succeeded'])
    await agent.close()
  })

  it('are removed in reverse by a teardown, and all of it by a deprovision, which ends the agent', async () => {
    const agent = await activeInstall(tenant, 'leaving')
    const order: string[] = []
    const note = (manifest: JobManifest) => {
      order.push(`${manifest.kind}:${manifest.operations[0]!.component}`)
      return {}
    }
    const teardown = await tenant.client.call('installs.teardown', {
      params: { ref: 'leaving' },
      body: { components: ['web'] },
    })
    expect((await runToEnd(agent, teardown.id, note)).status).toBe('succeeded')
    await expect(
      tenant.client.call('installs.teardown', { params: { ref: 'leaving' }, body: { components: ['web'] } }),
    ).rejects.toMatchObject({ code: 'not_found' })
    const gone = await tenant.client.call('installs.deprovision', { params: { ref: 'leaving' } })
    expect((await runToEnd(agent, gone.id, note)).status).toBe('succeeded')
    expect(order).toEqual(['destroy:web', 'destroy:db'])
    expect(await agent.next('reject')).toMatchObject({ code: 'revoked' })
    const { status, id } = await tenant.client.call('installs.get', { params: { ref: 'leaving' } })
    expect(status).toBe('deprovisioned')
    expect(await auditOf(tenant, id, agent.identity.agentId)).toContain('agent.revoked ok')
    await expect(deploy('leaving')).rejects.toMatchObject({ code: 'wrong_state' })
  })

  it('remove what the app has dropped, by the version that it was deployed with, before all that it still has', async () => {
    const flag = { ...component('flag', ['queue']), config: { size: 7 } }
    const rest = [component('db'), component('queue', ['db']), component('web', ['db'])]
    await builtApp(tenant, 'shrinking', [...rest, flag])
    const agent = await activeInstall(tenant, 'shrinking', 'shrinking')
    const other = await activeInstall(tenant, 'shrinking-too', 'shrinking')
    await builtApp(tenant, 'shrinking', [component('db'), component('web', ['db'])])
    const seen: JobManifest[] = []
    const note = (manifest: JobManifest) => (seen.push(manifest), {})
    const gone = await tenant.client.call('installs.deprovision', { params: { ref: 'shrinking' } })
    expect((await runToEnd(agent, gone.id, note)).status).toBe('succeeded')
    const order = seen.map((m) => m.operations[0]!.component)
    expect(order).toEqual(['flag', 'queue', 'web', 'db'])
    expect(seen[0]!.operations[0]!.config).toMatchObject({ component: { size: 7 }, app: { version: 1 } })
    const teardown = await tenant.client.call('installs.teardown', {
      params: { ref: 'shrinking-too' },
      body: { components: ['flag'] },
    })
    expect((await runToEnd(other, teardown.id)).status).toBe('succeeded')
    const { components } = await tenant.client.call('installs.get', { params: { ref: 'shrinking-too' } })
    expect(components.map((c) => c.name)).not.toContain('flag')
    await other.close()
  })

  it('a deprovision that waited removes what was deployed while it waited', async () => {
    const { run: provision } = await newInstall(tenant.client, 'hasty')
    const gone = await tenant.client.call('installs.deprovision', { params: { ref: 'hasty' } })
    expect(gone.status).toBe('queued')
    const agent = await installAgent(tenant, 'hasty')
    const kinds: string[] = []
    await runToEnd(agent, gone.id, (manifest) => {
      kinds.push(manifest.kind)
      return {}
    })
    expect((await run(provision.id)).status).toBe('succeeded')
    expect(kinds.filter((kind) => kind === 'destroy')).toHaveLength(2)
    const { components } = await tenant.client.call('installs.get', { params: { ref: 'hasty' } })
    expect(components).toEqual([])
  })
})

describe('a canceled run', () => {
  it('that waits ends at once', async () => {
    const agent = await activeInstall(tenant, 'cancel-queued')
    const first = await deploy('cancel-queued')
    const second = await deploy('cancel-queued')
    const canceled = await tenant.client.call('runs.cancel', { params: { id: second.id } })
    expect(canceled.status).toBe('canceled')
    expect(new Set(canceled.steps.map((s) => s.status))).toEqual(new Set(['canceled']))
    await expect(tenant.client.call('runs.cancel', { params: { id: second.id } })).rejects.toMatchObject({
      code: 'wrong_state',
    })
    expect((await runToEnd(agent, first.id)).status).toBe('succeeded')
    await agent.close()
  })

  it('whose jobs wait for an agent ends at once, and the next one starts', async () => {
    const agent = await activeInstall(tenant, 'cancel-away')
    await agent.close()
    const first = await deploy('cancel-away')
    const second = await deploy('cancel-away')
    await until('away', async () => (await run(first.id)).waiting.some((w) => w.code === 'agent_away'))
    expect((await tenant.client.call('runs.cancel', { params: { id: first.id } })).status).toBe('canceled')
    expect((await run(second.id)).status).toBe('active')
    await tenant.client.call('runs.cancel', { params: { id: second.id } })
  })

  it('that waits for its agent to enrol ends at once', async () => {
    const { run: provision } = await newInstall(tenant.client, 'cancel-enrol')
    expect((await tenant.client.call('runs.cancel', { params: { id: provision.id } })).status).toBe(
      'canceled',
    )
    const { status } = await tenant.client.call('installs.get', { params: { ref: 'cancel-enrol' } })
    expect(status).toBe('failed')
  })

  it('asks what runs to stop, starts nothing new, and ends when that has ended', async () => {
    const agent = await activeInstall(tenant, 'cancel-running')
    const { id } = await deploy('cancel-running', ['db'])
    const job = manifestOf(await agent.next('job.assign'))
    agent.send(startedFrame(job))
    const asked = await tenant.client.call('runs.cancel', { params: { id } })
    expect(asked.status).toBe('active')
    expect(await agent.next('job.cancel')).toMatchObject({ jobId: job.jobId, fence: job.fence })
    agent.send(finishedFrame(agent.identity, job, { outcome: 'canceled' }))
    expect((await ended(tenant.client, id)).status).toBe('canceled')
    expect(await steps(id)).toEqual({ 'sync:db': 'canceled', 'deploy:db': 'canceled' })
    expect(agent.frames.filter((f) => f.type === 'job.assign').at(-1)).toMatchObject({
      manifest: { text: expect.stringContaining(job.jobId) },
    })
    const audit = await auditOf(tenant, agent.identity.installId!)
    expect(audit).toContain('run.cancel_requested ok')
    expect(audit).toContain('job.cancel_requested ok')
    await agent.close()
  })
})

it('every chain of all of this verifies', async () => {
  expect(await auditProblems(tenant)).toEqual([])
})
