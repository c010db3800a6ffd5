import type { Component } from '@tenon/core'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { auditOf } from '../testing/audit.ts'
import { planned } from '../testing/planned-world.ts'
import {
  connectAgent,
  enrolTestAgent,
  finishedFrame,
  heldFrame,
  manifestOf,
  startedFrame,
  type HelloOptions,
  type TestAgent,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp, component, ended, installAgent, plan } from '../testing/world.ts'
import { lapseOverdueJobs } from './lapse.ts'

vi.setConfig({ testTimeout: 120_000 })

let tenant: TestTenant
let agent: TestAgent
let count = 0

beforeAll(async () => {
  tenant = await startTestTenant({ leaseSeconds: 600, heartbeatSeconds: 60 })
})
afterEach(async () => {
  await agent.close()
  await tenant.assertSound()
})
afterAll(() => tenant.stop())

const job = (id: string) => tenant.client.call('jobs.get', { params: { id } })
const run = (id: string) => tenant.client.call('runs.get', { params: { id } })
const statusOf = (id: string, status: string) =>
  until(`${id} to be ${status}`, async () => (await job(id)).status === status, 60_000)
const audited = (id: string) => auditOf(tenant, agent.identity.installId!, id)

async function comeBack(options: HelloOptions = {}): Promise<void> {
  await agent.close()
  const bootId = `start number ${++count} of the agent`
  agent = await connectAgent(tenant.url, agent.identity, { bootCounter: count + 1, bootId, ...options })
}

interface HeldJob {
  runId: string
  name: string
  jobId: string
  fence: number
}

/** Answers what comes before it; resolves with the next deploy. */
async function nextDeploy(): Promise<{ jobId: string; fence: number }> {
  for (;;) {
    const manifest = manifestOf(await agent.next('job.assign'))
    if (manifest.kind === 'deploy') return { jobId: manifest.jobId, fence: manifest.fence }
    const result = manifest.kind === 'plan' ? { plan: plan() } : {}
    agent.send(finishedFrame(agent.identity, manifest, { result }))
  }
}

/** A deploy that its agent holds, of a run of its own. */
async function held(db: Component = component('db')): Promise<HeldJob> {
  const name = `lapse${++count}`
  await builtApp(tenant, name, [db])
  agent = await activeInstall(tenant, name, name)
  const made = await tenant.client.call('deploys.create', { params: { ref: name }, body: {} })
  const { jobId, fence } = await nextDeploy()
  agent.send({ type: 'job.accepted', jobId, fence })
  agent.send(heldFrame(agent.identity, { jobId, fence }))
  await agent.next('job.permit')
  return { runId: made.id, name, jobId, fence }
}

const runOut = (jobId: string, msAgo = 60_000) =>
  tenant.context.db
    .updateTable('job_hold')
    .set({ start_before: new Date(Date.now() - msAgo).toISOString() })
    .where('job_id', '=', jobId)
    .execute()

async function lapsedWhileAway(db?: Component): Promise<HeldJob> {
  const of = await held(db)
  await agent.close()
  await runOut(of.jobId)
  await statusOf(of.jobId, 'lapsed')
  return of
}

/** To its end, with a new deploy. */
async function workOut(runId: string): Promise<void> {
  agent.send(finishedFrame(agent.identity, await nextDeploy()))
  expect((await ended(tenant.client, runId)).status).toBe('succeeded')
}

describe('a held job whose time is over while its agent is connected', () => {
  it('is withdrawn first; only after the answer is it asked anew', async () => {
    const { runId, jobId, fence } = await held()
    await runOut(jobId)
    await agent.next('job.cancel', (f) => f.jobId === jobId)
    await lapseOverdueJobs(tenant.context)
    expect(await job(jobId)).toMatchObject({ status: 'held' })
    agent.send(finishedFrame(agent.identity, { jobId, fence }, { outcome: 'canceled' }))
    await statusOf(jobId, 'lapsed')
    const { steps } = await run(runId)
    const deploy = steps.find(({ kind }) => kind === 'deploy')!
    expect(deploy).toMatchObject({ status: 'active', attempts: 1 })
    await workOut(runId)
    expect(await audited(jobId)).not.toContain('job.canceled failed')
  })

  it('goes on when it has begun, whatever the clocks say', async () => {
    const { runId, jobId, fence } = await held()
    await runOut(jobId)
    agent.send(startedFrame({ jobId, fence }))
    await statusOf(jobId, 'running')
    agent.send(finishedFrame(agent.identity, { jobId, fence }))
    expect((await ended(tenant.client, runId)).status).toBe('succeeded')
  })

  it('is asked anew when that session ends, or when no answer came for long', async () => {
    const first = await held()
    await runOut(first.jobId)
    await agent.next('job.cancel', (f) => f.jobId === first.jobId)
    await comeBack({ inventory: [] })
    await statusOf(first.jobId, 'lapsed')
    await workOut(first.runId)
    await agent.close()
    const second = await held()
    await runOut(second.jobId, 700_000)
    await statusOf(second.jobId, 'lapsed')
    await workOut(second.runId)
    for (const { jobId } of [first, second]) expect(await job(jobId)).toMatchObject({ status: 'lapsed' })
  })

  it('is asked anew soon where its agent drops it without a word: it is made to say what it holds', async () => {
    const { runId, jobId, fence } = await held()
    const earlier = { features: ['hold', 'network'] }
    await comeBack({ ...earlier, inventory: [{ jobId, fence, state: 'held' }] })
    await runOut(jobId)
    await agent.next('job.cancel', (f) => f.jobId === jobId)
    expect(await agent.next('reject')).toMatchObject({ code: 'busy' })
    expect(await job(jobId)).toMatchObject({ status: 'held' })
    await comeBack({ ...earlier, inventory: [] })
    await statusOf(jobId, 'lapsed')
    await workOut(runId)
  })

  it('runs by its agent’s inventory alone, and how it is held is kept when the agent says it', async () => {
    const { runId, jobId, fence } = await held()
    await comeBack({ inventory: [{ jobId, fence, state: 'running' }] })
    expect(await job(jobId)).toMatchObject({ status: 'running', startedAt: null })
    await runOut(jobId)
    await lapseOverdueJobs(tenant.context)
    agent.send(startedFrame({ jobId, fence }))
    await until('the start', async () => (await job(jobId)).confinement === 'none')
    agent.send(finishedFrame(agent.identity, { jobId, fence }))
    expect((await ended(tenant.client, runId)).status).toBe('succeeded')
    expect(await audited(jobId)).toEqual(
      expect.arrayContaining(['job.recovered ok', 'job.started ok', 'job.succeeded ok']),
    )
  })
})

describe('a planned deploy that lapsed here while its agent had started it', () => {
  it('goes on, and its plan speaks for it again', async () => {
    const { runId, jobId, fence } = await lapsedWhileAway(planned('db'))
    const before = await run(runId)
    expect(before.steps.find(({ key }) => key === 'plan:db')).toMatchObject({ status: 'active' })
    await comeBack({ inventory: [{ jobId, fence, state: 'running' }] })
    expect(agent.welcome.verdicts).toEqual([{ jobId, fence, verdict: 'keep' }])
    const { steps } = await run(runId)
    const planStep = steps.find(({ key }) => key === 'plan:db')!
    expect(planStep).toMatchObject({ status: 'succeeded' })
    expect(await job(planStep.jobId!)).toMatchObject({ status: 'succeeded' })
    expect(steps.find(({ kind }) => kind === 'deploy')).toMatchObject({ status: 'active', jobId })
    agent.send(finishedFrame(agent.identity, { jobId, fence }))
    expect((await ended(tenant.client, runId)).status).toBe('succeeded')
    const { rows } = await tenant.context.pool.query('select status from deploy where run_id = $1', [runId])
    expect(rows).toEqual([{ status: 'succeeded' }])
  })

  it('has its result applied when it has ended meanwhile', async () => {
    const { runId, jobId, fence } = await lapsedWhileAway(planned('db'))
    await comeBack({ inventory: [{ jobId, fence, state: 'finished' }] })
    agent.send(finishedFrame(agent.identity, { jobId, fence }))
    expect((await ended(tenant.client, runId)).status).toBe('succeeded')
    expect(await job(jobId)).toMatchObject({ status: 'succeeded' })
  })

  it('has its report kept in the audit where it cannot be applied any more, once', async () => {
    const { runId, jobId, fence } = await lapsedWhileAway(planned('db'))
    await tenant.client.call('runs.cancel', { params: { id: runId } })
    await comeBack({ inventory: [{ jobId, fence, state: 'finished' }] })
    expect(agent.welcome.verdicts).toEqual([{ jobId, fence, verdict: 'keep' }])
    for (let time = 0; time < 2; time++) {
      agent.send(finishedFrame(agent.identity, { jobId, fence }))
      await agent.next('job.settled', (f) => f.jobId === jobId)
    }
    expect(await job(jobId)).toMatchObject({ status: 'lapsed' })
    expect((await audited(jobId)).filter((entry) => entry === 'job.late_report refused')).toHaveLength(1)
  })
})

describe('a job that an earlier server let lapse', () => {
  const comesBackRunning = async ({ jobId, fence }: HeldJob) => {
    await tenant.context.pool.query('delete from job_lapse where job_id = $1', [jobId])
    await comeBack({ inventory: [{ jobId, fence, state: 'running' }] })
    return agent.welcome.verdicts[0]?.verdict
  }

  it('goes on where another one waits in its very place', async () => {
    const of = await lapsedWhileAway()
    expect(await comesBackRunning(of)).toBe('keep')
    agent.send(finishedFrame(agent.identity, of))
    expect((await ended(tenant.client, of.runId)).status).toBe('succeeded')
  })

  it('stops where its guards ask anew', async () => {
    const of = await lapsedWhileAway(planned('db'))
    expect(await comesBackRunning(of)).toBe('stop')
    await workOut(of.runId)
    expect((await run(of.runId)).status).toBe('succeeded')
  })
})

it('a build that lapsed here while its agent had started it goes on', async () => {
  const { client } = tenant
  const { runId } = await held()
  await agent.close()
  await client.call('runs.cancel', { params: { id: runId } })
  const { joinToken } = await client.call('agents.joinToken', { body: { role: 'build' } })
  const identity = await enrolTestAgent(tenant.url, joinToken)
  agent = await connectAgent(tenant.url, identity)
  const { digest } = await client.call('sources.put', { body: new TextEncoder().encode('another source') })
  const { builds } = await client.call('builds.create', {
    params: { ref: (await client.call('apps.list', {})).items[0]!.name },
    body: { components: [{ name: 'db', source: digest }] },
  })
  const { jobId, fence } = manifestOf(await agent.next('job.assign'))
  agent.send(heldFrame(identity, { jobId, fence }))
  await agent.next('job.permit')
  await agent.close()
  await runOut(jobId)
  await statusOf(jobId, 'lapsed')
  await comeBack({ inventory: [{ jobId, fence, state: 'running' }] })
  expect(agent.welcome.verdicts).toEqual([{ jobId, fence, verdict: 'keep' }])
  const build = await client.call('builds.get', { params: { id: builds[0]!.id } })
  expect(build).toMatchObject({ status: 'running', jobId })
})

describe('a held job whose agent does not come back', () => {
  it('lapses at once when its agent is revoked', async () => {
    const { runId, jobId, name } = await held()
    await agent.close()
    await tenant.client.call('agents.revoke', { params: { id: agent.identity.agentId } })
    await statusOf(jobId, 'lapsed')
    agent = await installAgent(tenant, name)
    await workOut(runId)
    expect((await run(runId)).status).toBe('succeeded')
  })

  it('ends as canceled when that was asked, and says meanwhile how', async () => {
    const { runId, jobId } = await held()
    await agent.close()
    await tenant.client.call('jobs.cancel', { params: { id: jobId } })
    await until('the agent to be away', async () => {
      const { waiting } = await job(jobId)
      return waiting?.code === 'canceling' && waiting.message.includes('not connected')
    })
    await tenant.client.call('agents.revoke', { params: { id: agent.identity.agentId } })
    await statusOf(jobId, 'canceled')
    expect((await ended(tenant.client, runId)).status).toBe('canceled')
  })

  it('is settled by hand, but not while its agent is connected', async () => {
    const { runId, jobId } = await held()
    const settle = () =>
      tenant.client.call('jobs.settle', {
        params: { id: jobId },
        body: { outcome: 'canceled', reason: 'the machine burnt down' },
      })
    await expect(settle()).rejects.toMatchObject({ code: 'wrong_state' })
    await agent.close()
    await until('the job to be settled', () => settle().catch(() => undefined))
    expect((await ended(tenant.client, runId)).status).toBe('canceled')
  })

  it('does not keep the others from lapsing when it cannot', async () => {
    const stuck = await held()
    await agent.close()
    const other = await held()
    await agent.close()
    const { pool } = tenant.context
    await pool.query(`
      create function no_lapse() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$;
      create trigger no_lapse before update on job for each row when (new.id = '${stuck.jobId}' and new.status = 'lapsed')
        execute function no_lapse()`)
    await runOut(stuck.jobId)
    await runOut(other.jobId)
    await statusOf(other.jobId, 'lapsed')
    expect(await job(stuck.jobId)).toMatchObject({ status: 'held' })
    await pool.query('drop function no_lapse cascade')
    await statusOf(stuck.jobId, 'lapsed')
    tenant.errors.splice(0)
  })
})

it('who follows the log of a held job hears its end when it lapses', async () => {
  const { jobId } = await held()
  await agent.close()
  const following = fetch(`${tenant.url}/api/v1/jobs/${jobId}/logs?follow=1`, {
    headers: { authorization: `Bearer ${tenant.ownerToken}` },
  }).then((response) => response.text())
  await runOut(jobId)
  expect(await following).toBe('')
  expect(await job(jobId)).toMatchObject({ status: 'lapsed' })
})

it('a held job that has begun gets its credential before the server has heard of its start', async () => {
  const { jobId, fence } = await held()
  agent.send({ type: 'credential.request', requestId: 7, jobId, fence, want: 'registry' })
  expect(await agent.next('credential.grant', (f) => f.requestId === 7)).toBeDefined()
  expect(await job(jobId)).toMatchObject({ status: 'held' })
})

it('a slot stays taken by a job that begins right after a word on its hold', async () => {
  const name = `lapse${++count}`
  await builtApp(
    tenant,
    name,
    ['a', 'b', 'c'].map((each) => component(each)),
  )
  agent = await activeInstall(tenant, name, name)
  await comeBack({ slots: 1 })
  const { id } = await tenant.client.call('deploys.create', { params: { ref: name }, body: {} })
  const first = await nextDeploy()
  agent.send(heldFrame(agent.identity, first))
  const second = await nextDeploy()
  agent.send({ type: 'job.progress', ...first, message: 'waits', fraction: null })
  agent.send(heldFrame(agent.identity, first, 'the customer paused it once more'))
  agent.send(startedFrame(first))
  await statusOf(first.jobId, 'running')
  agent.send(finishedFrame(agent.identity, second))
  await agent.next('job.settled', (f) => f.jobId === second.jobId)
  await audited(second.jobId)
  agent.send(finishedFrame(agent.identity, first))
  const third = await nextDeploy()
  const [before, after] = await Promise.all([job(first.jobId), job(third.jobId)])
  expect(Date.parse(after.assignedAt!)).toBeGreaterThanOrEqual(Date.parse(before.finishedAt!))
  agent.send(finishedFrame(agent.identity, third))
  expect((await ended(tenant.client, id)).status).toBe('succeeded')
})
