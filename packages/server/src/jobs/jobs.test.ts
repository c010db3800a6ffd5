import type { JobManifest } from '@tenon/core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { auditOf, auditProblems } from '../testing/audit.ts'
import { action, planned } from '../testing/planned-world.ts'
import {
  connectAgent,
  finishedFrame,
  manifestOf,
  startedFrame,
  type HelloOptions,
  type TestAgent,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp, component, ended, plan, workAll } from '../testing/world.ts'
import { claimJobs } from './claim.ts'
import { expireLeases } from './leases.ts'

let tenant: TestTenant
let agent: TestAgent
let boot = 1
let installId: string

beforeAll(async () => {
  // Leases are let run out by the tests themselves, not by the clock.
  tenant = await startTestTenant({ leaseSeconds: 600, heartbeatSeconds: 60 })
  await builtApp(tenant)
  agent = await activeInstall(tenant, 'one')
  installId = agent.identity.installId!
})
afterAll(() => tenant.stop())
afterEach(async () => {
  await settleEverything()
  await tenant.assertSound()
})

const job = (id: string) => tenant.client.call('jobs.get', { params: { id } })
const cancel = (id: string) => tenant.client.call('jobs.cancel', { params: { id } })

async function comeBack(options: HelloOptions = {}): Promise<TestAgent> {
  const bootId = `start number ${++boot} of the agent`
  agent = await connectAgent(tenant.url, agent.identity, { bootCounter: boot, bootId, ...options })
  return agent
}

async function leave(): Promise<void> {
  await agent.close()
  await until('gone', async () => !(await install()).agent!.connected)
}

const install = () => tenant.client.call('installs.get', { params: { ref: 'one' } })

/** A deploy whose first job is with the agent. */
async function assigned() {
  const run = await tenant.client.call('deploys.create', {
    params: { ref: 'one' },
    body: { components: ['db'] },
  })
  const first = run.steps[0]!.jobId
  const manifest = manifestOf(await agent.next('job.assign', (f) => manifestOf(f).jobId === first))
  return { run, id: manifest.jobId, fence: manifest.fence, manifest }
}

async function running() {
  const made = await assigned()
  agent.send(startedFrame(made.manifest))
  await until('running', async () => (await job(made.id)).status === 'running')
  return made
}

async function letLeaseRunOut(id: string): Promise<void> {
  const past = new Date(Date.now() - 1).toISOString()
  await tenant.context.db.updateTable('job').set({ lease_until: past }).where('id', '=', id).execute()
  // The server's own watch may have been first.
  await expireLeases(tenant.context, 3_600)
  await until('lost', async () => (await job(id)).status === 'lost')
}

async function settleEverything(): Promise<void> {
  if (!agent.isOpen()) await comeBack()
  const { activeRun } = await install()
  if (!activeRun) return
  await tenant.client.call('runs.cancel', { params: { id: activeRun } }).catch(() => undefined)
  for (const { id } of (await tenant.client.call('jobs.list', { query: { status: 'lost' } })).items)
    await tenant.client.call('jobs.settle', { params: { id }, body: { outcome: 'canceled', reason: 'tidy' } })
  for (const status of ['assigned', 'running'] as const) {
    for (const { id, fence } of (await tenant.client.call('jobs.list', { query: { status } })).items)
      agent.send(finishedFrame(agent.identity, { jobId: id, fence }, { outcome: 'canceled' }))
  }
  await ended(tenant.client, activeRun)
}

describe('canceling a job', () => {
  it('that waits ends it at once', async () => {
    await leave()
    const run = await tenant.client.call('deploys.create', { params: { ref: 'one' }, body: {} })
    const waiting = run.steps.find((s) => s.jobId)!.jobId!
    expect((await job(waiting)).waiting).toMatchObject({ code: 'agent_away' })
    expect(await cancel(waiting)).toMatchObject({ status: 'canceled', reason: 'canceled' })
    await expect(cancel(waiting)).rejects.toMatchObject({ code: 'wrong_state' })
  })

  it.each([
    ['was assigned', assigned],
    ['runs', running],
  ] as const)('that %s asks its agent, once however often it is asked', async (_, make) => {
    const { id, fence } = await make()
    await cancel(id)
    await cancel(id)
    expect(await agent.next('job.cancel', (f) => f.jobId === id)).toMatchObject({ fence })
    const audit = await auditOf(tenant, installId, id)
    expect(audit.filter((a) => a === 'job.cancel_requested ok')).toHaveLength(1)
    agent.send(finishedFrame(agent.identity, { jobId: id, fence }, { outcome: 'canceled' }))
    await until('canceled', async () => (await job(id)).status === 'canceled')
  })

  it('that is lost is remembered for the agent that comes back with it', async () => {
    const { id, fence } = await running()
    await leave()
    await letLeaseRunOut(id)
    await cancel(id)
    expect((await job(id)).status).toBe('lost')
    const back = await comeBack({ inventory: [{ jobId: id, fence, state: 'running' }] })
    expect(back.welcome.verdicts).toEqual([{ jobId: id, fence, verdict: 'stop' }])
  })

  it('that was assigned and never arrived ends it instead of trying again', async () => {
    const { id } = await assigned()
    await leave()
    await cancel(id)
    await comeBack()
    expect((await job(id)).status).toBe('canceled')
  })
})

describe('a job that is signed again', () => {
  it('keeps its limits, whatever made them', async () => {
    const settings = { buildTimeoutSeconds: 111, deployTimeoutSeconds: 77 }
    const limits = { cpus: 3, timeoutSeconds: 88 }
    await builtApp(tenant, 'slow', [{ ...component('db'), config: { limits }, settings }])
    const seen = new Map<string, JobManifest>()
    const own = await activeInstall(tenant, 'slow', 'slow', (manifest) => seen.set(manifest.kind, manifest))
    expect(seen.get('deploy')?.limits).toMatchObject({ cpus: 3, timeoutSeconds: 77 })
    const run = await tenant.client.call('deploys.create', { params: { ref: 'slow' }, body: {} })
    const first = manifestOf(await own.next('job.assign', (f) => manifestOf(f).jobId === run.steps[0]!.jobId))
    expect(first.limits).toMatchObject({ cpus: 3, timeoutSeconds: 88 })
    // What the server would give a new job of this kind is no longer what this one was given.
    const { manifest } = await tenant.context.db
      .selectFrom('job')
      .select('manifest')
      .where('id', '=', first.jobId)
      .executeTakeFirstOrThrow()
    const kept = JSON.parse(manifest) as { body: object }
    const longer = { ...first.limits, pids: 7, timeoutSeconds: 99 }
    const other = { ...kept, body: { ...kept.body, limits: longer } }
    await tenant.context.db
      .updateTable('job')
      .set({ manifest: JSON.stringify(other) })
      .where('id', '=', first.jobId)
      .execute()
    await own.close()
    const back = await connectAgent(tenant.url, own.identity, { bootCounter: 2, bootId: 'the second start' })
    const again = manifestOf(await back.next('job.assign', (f) => manifestOf(f).jobId === first.jobId))
    expect(again.fence).toBe(first.fence + 1)
    expect(again.limits).toEqual(longer)
    await tenant.client.call('runs.cancel', { params: { id: run.id } })
    await back.close()
  })
})

describe('settling a job by hand', () => {
  const settle = (id: string) =>
    tenant.client.call('jobs.settle', { params: { id }, body: { outcome: 'failed', reason: 'looked' } })

  it('is only for lost ones', async () => {
    const one = await assigned()
    await expect(settle(one.id)).rejects.toMatchObject({ code: 'wrong_state' })
    agent.send(startedFrame(one.manifest))
    await until('running', async () => (await job(one.id)).status === 'running')
    await expect(settle(one.id)).rejects.toMatchObject({ code: 'wrong_state' })
    await leave()
    await letLeaseRunOut(one.id)
    expect((await tenant.client.call('runs.get', { params: { id: one.run.id } })).waiting).toMatchObject([
      { code: 'lost' },
    ])
    expect(await settle(one.id)).toMatchObject({ status: 'failed', reason: 'forced', message: 'looked' })
    await expect(settle(one.id)).rejects.toMatchObject({ code: 'wrong_state' })
    const audit = await auditOf(tenant, installId, one.id)
    expect(audit.slice(-2)).toEqual(['job.lost failed', 'job.failed failed'])
  })

  it('stands for no plan and for no action before a deploy', async () => {
    const check = action('check', [{ type: 'pre-deploy-component', component: 'db' }])
    await builtApp(tenant, 'guarded', [planned('db')], { actions: [check] })
    const own = await activeInstall(tenant, 'guarded', 'guarded')
    const run = await tenant.client.call('deploys.create', { params: { ref: 'guarded' }, body: {} })
    const byHand = (id: string, outcome: 'succeeded' | 'failed') =>
      tenant.client.call('jobs.settle', { params: { id }, body: { outcome, reason: 'looked' } })
    const loses = async (kind: 'plan' | 'action') => {
      for (;;) {
        const next = manifestOf(await own.next('job.assign', undefined, 30_000))
        own.send(startedFrame(next))
        if (next.kind === kind) {
          await until('running', async () => (await job(next.jobId)).status === 'running')
          await letLeaseRunOut(next.jobId)
          return next.jobId
        }
        const result = next.kind === 'plan' ? { plan: plan() } : {}
        own.send(finishedFrame(own.identity, next, { result }))
      }
    }
    for (const kind of ['plan', 'action'] as const) {
      const id = await loses(kind)
      await expect(byHand(id, 'succeeded')).rejects.toMatchObject({
        code: 'not_approved',
        remedy: expect.stringMatching(/as failed/) as string,
      })
      expect(await byHand(id, 'failed')).toMatchObject({ status: 'failed' })
      const { steps } = await ended(tenant.client, run.id)
      const step = steps.find((s) => s.kind === kind)!
      await tenant.client.call('steps.retry', { params: { id: run.id, step: step.id } })
    }
    await tenant.client.call('runs.cancel', { params: { id: run.id } })
    await own.close()
  })
})

describe('a job that was assigned and never arrived', () => {
  it('goes back to the queue under a higher fence, and the old report is refused and audited', async () => {
    const { id, fence } = await assigned()
    const old = agent
    await leave()
    const back = await comeBack()
    const again = manifestOf(await back.next('job.assign', (f) => manifestOf(f).jobId === id))
    expect([again.jobId, again.fence]).toEqual([id, fence + 1])
    back.send(finishedFrame(old.identity, { jobId: id, fence }, { outcome: 'failed' }))
    await back.next('job.settled', (f) => f.jobId === id && f.fence === fence)
    expect((await job(id)).status).toBe('assigned')
    const audit = await auditOf(tenant, installId, id)
    expect(audit).toContain('job.requeued ok')
    expect(audit).toContain('job.stale_report refused')
    const { digest, text } = await tenant.client.call('jobs.manifest', { params: { id } })
    expect(JSON.parse(text)).toMatchObject({ jobId: id, fence: fence + 1 })
    expect((await job(id)).manifestDigest).toBe(digest)
  })

  it('because its session was taken over is not claimed for that session at all', async () => {
    await leave()
    await tenant.client.call('deploys.create', { params: { ref: 'one' }, body: { components: ['db'] } })
    const { agentId } = agent.identity
    const dead = {
      agentId,
      pool: `install:${installId}`,
      sessionId: 'ses_of_before',
      lane: 'any' as const,
      features: [],
      limit: 10,
    }
    expect(await claimJobs(tenant.context, [dead])).toEqual([{ jobs: [], isMore: false }])
    await comeBack()
    expect(await agent.next('job.assign')).toBeDefined()
  })
})

describe('a result', () => {
  it('is applied once though it is sent five times over two connections at once', async () => {
    const { id, fence, run } = await running()
    const frame = finishedFrame(agent.identity, { jobId: id, fence })
    const first = agent
    const second = await comeBack({ inventory: [{ jobId: id, fence, state: 'finished' }] })
    for (let i = 0; i < 5; i++) {
      if (first.isOpen()) first.send(frame)
      second.send(frame)
    }
    for (let i = 0; i < 5; i++) await second.next('job.settled', (f) => f.jobId === id)
    const audit = await auditOf(tenant, installId, id)
    expect(audit.filter((a) => a.startsWith('job.succeeded'))).toHaveLength(1)
    expect(audit.filter((a) => a.startsWith('job.stale_report'))).toEqual([])
    const { steps } = await tenant.client.call('runs.get', { params: { id: run.id } })
    expect(steps.map((s) => s.status)).toEqual(['succeeded', 'active'])
  })

  it('that another key signed, or that names another agent, ends the connection and changes nothing', async () => {
    const { id, fence } = await running()
    const inventory = [{ jobId: id, fence, state: 'running' as const }]
    const frame = finishedFrame(agent.identity, { jobId: id, fence })
    agent.send({ ...frame, report: { ...frame.report, signature: 'AAAA' } })
    expect(await agent.next('reject')).toMatchObject({ code: 'bad_signature' })
    await comeBack({ inventory })
    const other = { ...agent.identity, agentId: `agt_${'0'.repeat(26)}` }
    agent.send(finishedFrame(other, { jobId: id, fence }))
    expect(await agent.next('reject')).toMatchObject({ code: 'bad_frame' })
    expect((await job(id)).status).toBe('running')
    await comeBack({ inventory })
  })
})

describe('a lease', () => {
  it('that runs out makes the job lost; its agent comes back with it and it goes on', async () => {
    const { id, fence } = await running()
    await leave()
    await letLeaseRunOut(id)
    expect((await job(id)).waiting).toMatchObject({ code: 'lost' })
    const back = await comeBack({ inventory: [{ jobId: id, fence, state: 'running' }] })
    expect(back.welcome.verdicts).toEqual([{ jobId: id, fence, verdict: 'keep' }])
    expect((await job(id)).status).toBe('running')
    const audit = await auditOf(tenant, installId, id)
    expect(audit.slice(-2)).toEqual(['job.lost failed', 'job.recovered ok'])
  })

  it('that ran out is settled by a late result', async () => {
    const { id, fence } = await running()
    await leave()
    await letLeaseRunOut(id)
    await comeBack({ inventory: [{ jobId: id, fence, state: 'finished' }] })
    agent.send(finishedFrame(agent.identity, { jobId: id, fence }))
    await agent.next('job.settled', (f) => f.jobId === id)
    expect((await job(id)).status).toBe('succeeded')
  })

  it.each(['running', 'lost'] as const)(
    'of a %s job ends when its agent comes back without it',
    async (status) => {
      const { id, run } = await running()
      await leave()
      if (status === 'lost') await letLeaseRunOut(id)
      await comeBack()
      expect(await job(id)).toMatchObject({ status: 'failed', reason: 'gone' })
      expect((await tenant.client.call('runs.get', { params: { id: run.id } })).status).toBe('failed')
    },
  )

  it('is renewed by heartbeats', async () => {
    const { id } = await running()
    const before = (await job(id)).leaseUntil!
    agent.send({ type: 'heartbeat', running: 1, outboxBytes: 0, dropped: 3 })
    await agent.next('heartbeat.ack')
    await until('renewed', async () => (await job(id)).leaseUntil! > before)
    const { items } = await tenant.client.call('agents.list', { query: {} })
    expect(items.find((a) => a.id === agent.identity.agentId)).toMatchObject({ dropped: 3, running: 1 })
  })

  it('runs by the clock of the database, whatever the clock of a server process says', async () => {
    const { id } = await running()
    const hour = 3_600_000
    const ahead = { ...tenant.context, now: () => Date.now() + hour }
    expect(await expireLeases(ahead, 2)).toEqual([])
    expect((await job(id)).status).toBe('running')
    await tenant.context.db
      .updateTable('job')
      .set({ lease_until: new Date(Date.now() - 1).toISOString() })
      .where('id', '=', id)
      .execute()
    const behind = { ...tenant.context, now: () => Date.now() - hour }
    await until('lost', async () => {
      await expireLeases(behind, 2)
      return (await job(id)).status === 'lost'
    })
  })

  it('does not run while nobody watches', async () => {
    const { id } = await running()
    const nearly = new Date(Date.now() + 50).toISOString()
    await tenant.context.db.transaction().execute(async (db) => {
      // The row that each watcher locks first: no process may look in between.
      await db.selectFrom('lease_watch').selectAll().forUpdate().execute()
      await db.updateTable('job').set({ lease_until: nearly }).where('id', '=', id).execute()
      const hourAgo = new Date(Date.now() - 3_600_000).toISOString()
      await db.updateTable('lease_watch').set({ watched_at: hourAgo }).execute()
    })
    expect(await expireLeases(tenant.context, 2)).toEqual([])
    const { status, leaseUntil } = await job(id)
    expect(status).toBe('running')
    expect(Date.parse(leaseUntil!)).toBeGreaterThan(Date.now() + 3_000_000)
  })
})

describe('a refusal', () => {
  it('by the agent fails the job with its reason', async () => {
    const { id, fence } = await assigned()
    agent.send({ type: 'job.refused', jobId: id, fence, code: 'policy', message: 'not on a Sunday' })
    await until('failed', async () => (await job(id)).status === 'failed')
    expect(await job(id)).toMatchObject({ reason: 'refused', message: expect.stringContaining('Sunday') })
  })
})

it('every chain of all of this verifies', async () => {
  await workAll(agent, undefined, AbortSignal.abort())
  expect(await auditProblems(tenant)).toEqual([])
})
