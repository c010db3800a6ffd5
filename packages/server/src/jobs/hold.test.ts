import { isSignedBy } from '@tenon/core'
import { startPermit, type AgentVerdict } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { generateSigningKey, verify } from '../crypto.ts'
import { auditOf, entriesOf } from '../testing/audit.ts'
import {
  connectAgent,
  finishedFrame,
  heldFrame,
  manifestOf,
  refusedFrame,
  startedFrame,
  type Frame,
  type HelloOptions,
  type TestAgent,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp } from '../testing/world.ts'
import { lapseOverdueJobs } from './lapse.ts'
import { expireLeases } from './leases.ts'

let tenant: TestTenant
let agent: TestAgent
let boot = 1

beforeAll(async () => {
  tenant = await startTestTenant({ leaseSeconds: 600, heartbeatSeconds: 60 })
  await builtApp(tenant)
  agent = await activeInstall(tenant, 'one')
})
afterAll(async () => {
  await tenant.assertSound()
  await tenant.stop()
})

const job = (id: string) => tenant.client.call('jobs.get', { params: { id } })
const run = (id: string) => tenant.client.call('runs.get', { params: { id } })

async function comeBack(options: HelloOptions = {}): Promise<void> {
  await agent.close()
  const bootId = `start number ${++boot} of the agent`
  agent = await connectAgent(tenant.url, agent.identity, { bootCounter: boot, bootId, ...options })
}

/** A deploy whose first job its agent holds. */
async function held(changes: Partial<AgentVerdict> = {}) {
  const made = await tenant.client.call('deploys.create', {
    params: { ref: 'one' },
    body: { components: ['db'] },
  })
  const assign = await agent.next('job.assign', (f) => manifestOf(f).jobId === made.steps[0]!.jobId)
  const { jobId, fence } = manifestOf(assign)
  agent.send({ type: 'job.accepted', jobId, fence })
  agent.send(heldFrame(agent.identity, { jobId, fence }, undefined, changes))
  const permit = await agent.next('job.permit')
  return { runId: made.id, jobId, fence, permit }
}

async function workOut(runId: string, first?: { jobId: string; fence: number }): Promise<void> {
  if (first) agent.send(finishedFrame(agent.identity, first))
  await until('the run to end', async () => {
    const { status } = await run(runId)
    const assign = agent.frames.find((f): f is Frame<'job.assign'> => f.type === 'job.assign' && !done.has(f))
    if (assign) {
      done.add(assign)
      const { jobId, fence } = manifestOf(assign)
      if ((await job(jobId)).status === 'assigned')
        agent.send(finishedFrame(agent.identity, { jobId, fence }))
    }
    return status !== 'active'
  })
}
const done = new Set<object>()

async function letHoldRunOut(jobId: string): Promise<void> {
  const past = new Date(Date.now() - 60_000).toISOString()
  await tenant.context.db
    .updateTable('job_hold')
    .set({ start_before: past })
    .where('job_id', '=', jobId)
    .execute()
  // The end of the session may be on its way still.
  await until('the job to lapse', async () => {
    await lapseOverdueJobs(tenant.context)
    return (await job(jobId)).status === 'lapsed'
  })
}

describe('a job that its agent holds', () => {
  it('may start until a moment that the server signs; it has no lease, and says in words what it waits for', async () => {
    const { runId, jobId, fence, permit } = await held()
    const key = tenant.context.keys.current()
    expect(isSignedBy('job-start/1', permit.permit, key.key.publicKey, verify)).toBe(true)
    const { startBefore, ...of } = startPermit.parse(JSON.parse(permit.permit.text))
    expect(of).toEqual({ serverId: tenant.context.serverId, jobId, fence })
    expect(Date.parse(startBefore) - Date.now()).toBeGreaterThan(6 * 86_400_000)
    expect(await job(jobId)).toMatchObject({
      status: 'held',
      leaseUntil: null,
      waiting: { code: 'held', message: expect.stringContaining('the customer paused') as string },
    })
    expect((await run(runId)).waiting).toMatchObject([{ code: 'held' }])
    await tenant.context.pool.query(`update job set lease_until = now() - interval '1 hour' where id = $1`, [
      jobId,
    ])
    await expireLeases(tenant.context, 3_600)
    expect((await job(jobId)).status).toBe('held')
    agent.send(startedFrame({ jobId, fence }))
    await until('running', async () => (await job(jobId)).status === 'running')
    await workOut(runId, { jobId, fence })
    const audit = await auditOf(tenant, agent.identity.installId!, jobId)
    expect(audit.filter((entry) => entry.startsWith('job.held'))).toHaveLength(1)
  })

  it('is held for a week in all, also where the server heard of it late', async () => {
    const since = new Date(Date.now() - 6.5 * 86_400_000).toISOString()
    const { runId, jobId, fence, permit } = await held({ since })
    const { startBefore } = startPermit.parse(JSON.parse(permit.permit.text))
    expect(startBefore).toBe(new Date(Date.parse(since) + 7 * 86_400_000).toISOString())
    await workOut(runId, { jobId, fence })
  })

  it('stays held over a reconnect of its agent', async () => {
    const { runId, jobId, fence } = await held()
    await comeBack({ inventory: [{ jobId, fence, state: 'held' }] })
    expect(agent.welcome.verdicts).toEqual([{ jobId, fence, verdict: 'keep' }])
    const again = heldFrame(agent.identity, { jobId, fence })
    agent.send(again)
    await agent.next('job.permit')
    expect((await job(jobId)).status).toBe('held')
    await workOut(runId, { jobId, fence })
  })

  it('is canceled through its agent', async () => {
    const { runId, jobId, fence } = await held()
    await tenant.client.call('jobs.cancel', { params: { id: jobId } })
    expect(await agent.next('job.cancel', (f) => f.jobId === jobId)).toMatchObject({ fence })
    agent.send(finishedFrame(agent.identity, { jobId, fence }, { outcome: 'canceled' }))
    await until('canceled', async () => (await job(jobId)).status === 'canceled')
    await until('the run to end', async () => (await run(runId)).status === 'canceled')
  })

  it('is not held on the word of another key', async () => {
    const { runId, jobId, fence } = await held()
    const forged = heldFrame({ ...agent.identity, key: generateSigningKey() }, { jobId, fence }, 'because')
    agent.send(forged)
    expect(await agent.next('reject')).toMatchObject({ code: 'bad_signature' })
    await comeBack({ inventory: [{ jobId, fence, state: 'held' }] })
    await workOut(runId, { jobId, fence })
  })
})

describe('a refusal', () => {
  const refusedJob = async () => {
    const made = await tenant.client.call('deploys.create', {
      params: { ref: 'one' },
      body: { components: ['db'] },
    })
    const { jobId, fence } = manifestOf(
      await agent.next('job.assign', (f) => manifestOf(f).jobId === made.steps[0]!.jobId),
    )
    return { jobId, fence, runId: made.id }
  }

  it('is kept in the audit with the signature of its agent, which another key cannot give', async () => {
    const { jobId, fence, runId } = await refusedJob()
    const forged = refusedFrame({ ...agent.identity, key: generateSigningKey() }, { jobId, fence })
    agent.send(forged)
    expect(await agent.next('reject')).toMatchObject({ code: 'bad_signature' })
    await comeBack({ inventory: [{ jobId, fence, state: 'accepted' }] })
    const frame = refusedFrame(agent.identity, { jobId, fence })
    agent.send(frame)
    await until('the run to end', async () => (await run(runId)).status === 'failed')
    const entries = await entriesOf(tenant, agent.identity.installId!)
    const entry = entries.find(({ body }) => body.includes(jobId) && body.includes('"refusal"'))!
    expect(JSON.parse(entry.body)).toMatchObject({ details: { refusal: 'expired', verdict: frame.verdict } })
  })
})

describe('a job that was held for too long', () => {
  it('has lapsed, also where its agent is away: its step asks anew, and nothing failed', async () => {
    const { runId, jobId } = await held()
    await agent.close()
    await letHoldRunOut(jobId)
    const { steps, status } = await run(runId)
    expect(status).toBe('active')
    expect(steps[0]).toMatchObject({ status: 'active' })
    expect(steps[0]!.jobId).not.toBe(jobId)
    await comeBack({ inventory: [{ jobId, fence: 1, state: 'held' }] })
    expect(agent.welcome.verdicts).toEqual([{ jobId, fence: 1, verdict: 'forget' }])
    await workOut(runId)
    expect((await run(runId)).status).toBe('succeeded')
  })

  it('goes on when its agent had started it while away, and what was to replace it gives way', async () => {
    const { runId, jobId, fence } = await held()
    await agent.close()
    await letHoldRunOut(jobId)
    const replacement = (await run(runId)).steps[0]!.jobId!
    await comeBack({ inventory: [{ jobId, fence, state: 'running' }] })
    expect(agent.welcome.verdicts).toEqual([{ jobId, fence, verdict: 'keep' }])
    expect((await job(replacement)).status).toBe('canceled')
    expect((await run(runId)).steps[0]).toMatchObject({ jobId, status: 'active' })
    await workOut(runId, { jobId, fence })
    expect((await run(runId)).status).toBe('succeeded')
    expect((await job(jobId)).status).toBe('succeeded')
  })

  it('lapses when its agent is back without it', async () => {
    const { runId, jobId } = await held()
    await comeBack()
    expect((await job(jobId)).status).toBe('lapsed')
    await workOut(runId)
    expect((await run(runId)).status).toBe('succeeded')
  })
})
