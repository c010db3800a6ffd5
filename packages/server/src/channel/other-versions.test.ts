import type { HeldJob, JobKind } from '@tenon/core'
import { WIRE_RANGE } from '@tenon/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createJobs } from '../jobs/create.ts'
import { transact } from '../store/transaction.ts'
import { auditOf } from '../testing/audit.ts'
import { idleAgent } from '../testing/idle-agent.ts'
import {
  connectAgent,
  finishedFrame,
  manifestOf,
  openWire,
  shakeHands,
  startedFrame,
  type HelloOptions,
  type TestAgent,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp, ended, workAll } from '../testing/world.ts'

let tenant: TestTenant
let agent: TestAgent
let boot = 1

beforeAll(async () => {
  tenant = await startTestTenant({ leaseSeconds: 600, heartbeatSeconds: 60 })
  await builtApp(tenant)
  agent = await activeInstall(tenant, 'one')
})
afterAll(() => tenant.stop())
afterEach(() => tenant.assertSound())

const job = (id: string) => tenant.client.call('jobs.get', { params: { id } })

async function comeBack(options: HelloOptions = {}): Promise<void> {
  await agent.close()
  const bootId = `start number ${++boot} of the agent`
  agent = await connectAgent(tenant.url, agent.identity, { bootCounter: boot, bootId, ...options })
}

async function deploy() {
  return tenant.client.call('deploys.create', { params: { ref: 'one' }, body: { components: ['db'] } })
}

async function assigned(wanted?: string) {
  const frame = await agent.next('job.assign', (f) => wanted === undefined || manifestOf(f).jobId === wanted)
  return manifestOf(frame)
}

async function workOff(runId: string): Promise<string> {
  const stop = new AbortController()
  const working = workAll(agent, undefined, stop.signal)
  const { status } = await ended(tenant.client, runId)
  stop.abort()
  await working
  return status
}

describe('of a later agent', () => {
  it('a state that is not known counts as running: the session opens and the job goes on', async () => {
    const run = await deploy()
    const manifest = await assigned(run.steps[0]!.jobId!)
    agent.send(startedFrame(manifest))
    await until('running', async () => (await job(manifest.jobId)).status === 'running')
    const { jobId, fence } = manifest
    const state = 'levitating' as HeldJob['state']
    await comeBack({ inventory: [{ jobId, fence, state }] })
    expect(agent.welcome.verdicts).toEqual([{ jobId, fence, verdict: 'keep' }])
    expect((await job(jobId)).status).toBe('running')
    agent.send(finishedFrame(agent.identity, { jobId, fence }))
    expect(await workOff(run.id)).toBe('succeeded')
  })

  it('an end that is not known counts as failed, in its own word, and the session goes on', async () => {
    const run = await deploy()
    const { jobId, fence } = await assigned(run.steps[0]!.jobId!)
    const report = { outcome: 'skipped', message: 'nothing to do' }
    agent.send(finishedFrame(agent.identity, { jobId, fence }, report))
    await agent.next('job.settled', (f) => f.jobId === jobId)
    expect(await job(jobId)).toMatchObject({
      status: 'failed',
      message: 'it ended as “skipped”, which this server does not know: update the server; nothing to do',
    })
    expect(await auditOf(tenant, agent.identity.installId!, jobId)).toContain('job.failed failed')
    expect(agent.isOpen()).toBe(true)
    expect(await workOff(run.id)).toBe('failed')
  })
})

describe('the range that an agent signs', () => {
  it('is what it said when it called', async () => {
    const idle = await idleAgent(tenant)
    await idle.close()
    const again = await connectAgent(tenant.url, idle.identity, { speaks: { min: 2, max: 9 } })
    expect(again.welcome.verdicts).toEqual([])
    await again.close()
  })

  it('ends a session whose version somebody in between chose', async () => {
    const idle = await idleAgent(tenant)
    await idle.close()
    const wire = await openWire(tenant.url)
    const answer = await shakeHands(wire, idle.identity, { wire: { min: 2, max: 2 }, speaks: WIRE_RANGE })
    expect(answer).toMatchObject({ type: 'reject', code: 'wire_version' })
    expect(await auditOf(tenant, 'server', idle.identity.agentId)).toContain('agent.wire_version refused')
    await wire.ended
  })
})

describe('a job that requires what no connected agent can', () => {
  /** `debug` may call one name alone, which is required of its agent; a sync requires nothing. */
  async function make(...kinds: JobKind[]): Promise<string[]> {
    const plugin = { name: 'script', repository: 'plugins/script', digest: null }
    const rest = { component: 'db', artifacts: [], approvedPlan: null, config: {} }
    const operations = [{ operation: 'debug' as const, plugin, ...rest }]
    const { installId } = agent.identity
    const pool = `install:${installId}`
    const declared = { mode: 'egress' as const, names: ['db.example.com:5432'] }
    const planned = kinds.map((kind) => ({
      plan: {
        kind,
        role: 'install' as const,
        installId,
        operations,
        network: kind === 'debug' ? declared : undefined,
      },
      owner: {},
    }))
    return transact(tenant.context, async (tx) => {
      await tx.slots.confirm(
        tx.db,
        kinds.map(() => pool),
      )
      return createJobs(tenant.context, tx, planned)
    })
  }

  async function finish(jobId: string): Promise<void> {
    agent.send(finishedFrame(agent.identity, await assigned(jobId)))
    await until('the end', async () => (await job(jobId)).status === 'succeeded')
  }

  it('is given to none, says which version it takes, and goes to one that can', async () => {
    await comeBack({ features: ['hold', 'network'] })
    const [id = ''] = await make('debug')
    const { status, waiting } = await job(id)
    expect(status).toBe('queued')
    expect(waiting).toMatchObject({
      code: 'agent_too_old',
      message: 'No connected agent can do it: it needs agent ≥ 0.3, which has job-networks.',
      remedy: 'Update the agent of install one.',
    })
    await comeBack()
    const manifest = await assigned(id)
    expect(manifest.requires).toEqual([{ feature: 'job-networks', since: '0.3' }])
    agent.send(finishedFrame(agent.identity, manifest))
    await until('the end', async () => (await job(id)).status === 'succeeded')
  })

  it('is none that has just the usual network of its kind, which an older agent leaves open as it did', async () => {
    await comeBack({ features: [] })
    const [id = ''] = await make('logs')
    const manifest = await assigned(id)
    expect(manifest).toMatchObject({ network: { mode: 'cluster', names: [] }, requires: [] })
    agent.send(finishedFrame(agent.identity, manifest))
    await until('the end', async () => (await job(id)).status === 'succeeded')
  })

  it('lets jobs behind it pass, which require nothing, given at once or through the queue', async () => {
    await comeBack({ features: [] })
    const [first = '', behind = ''] = await make('debug', 'sync')
    await finish(behind)
    const [atOnce = ''] = await make('sync')
    await finish(atOnce)
    expect((await job(first)).status).toBe('queued')
    await comeBack()
    await finish(first)
  })

  it('is ahead of none that the agent can do', async () => {
    await comeBack({ features: [], slots: 1 })
    const [first = '', running = '', next = ''] = await make('debug', 'sync', 'sync')
    await until('the one behind to be out', async () => (await job(running)).status === 'assigned')
    expect((await job(next)).waiting).toMatchObject({
      code: 'no_free_slot',
      message: expect.stringContaining('it is the next') as unknown,
    })
    await finish(running)
    await finish(next)
    await comeBack()
    await finish(first)
  })
})
