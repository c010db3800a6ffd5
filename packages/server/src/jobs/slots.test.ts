import type { JobKind } from '@tenon/core'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { transact, type Tx } from '../store/transaction.ts'
import { auditOf } from '../testing/audit.ts'
import { connectAgent, finishedFrame, manifestOf, type TestAgent } from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp, ended, workAll } from '../testing/world.ts'
import { createJobs, type PlannedJob } from './create.ts'

const SLOTS = 2
let tenant: TestTenant
let agent: TestAgent
let pool: string
let boot = 1

beforeAll(async () => {
  tenant = await startTestTenant({ heartbeatSeconds: 60, leaseSeconds: 600 })
  await builtApp(tenant)
  agent = await activeInstall(tenant, 'one')
  await agent.close()
  pool = `install:${agent.identity.installId}`
})
afterAll(() => tenant.stop())

beforeEach(async () => {
  await comeBack()
})
afterEach(async () => {
  await finishAll()
  await agent.close()
  await tenant.assertSound()
})

async function comeBack(slots = SLOTS): Promise<void> {
  boot += 1
  agent = await connectAgent(tenant.url, agent.identity, {
    bootCounter: boot,
    bootId: `start number ${boot} of the agent`,
    slots,
  })
  await untilOpen()
}

const undone = new Error('undone by the test')

/** Undoes what it does, and what it took. */
async function tryOut<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
  let value: T
  return transact(tenant.context, async (tx) => {
    value = await work(tx)
    throw undone
  }).catch((error: unknown) => {
    if (error !== undone) throw error
    return value
  })
}

/** The agent's first look into the queue is over. */
async function untilOpen(): Promise<void> {
  await until('a slot', () => tryOut(async (tx) => (await make(tx, 'sync'))[0]!.agentId))
}

async function make(tx: Tx, ...kinds: JobKind[]) {
  const plugin = { name: 'script', repository: 'plugins/script', digest: null }
  const operation = { operation: 'debug' as const, plugin, component: 'db', artifacts: [], config: {} }
  const operations = [{ ...operation, approvedPlan: null }]
  const { installId } = agent.identity
  const planned = kinds.map((kind): PlannedJob => ({
    plan: { kind, role: 'install', installId, operations },
    owner: {},
  }))
  await tx.slots.confirm(
    tx.db,
    kinds.map(() => pool),
  )
  const ids = createJobs(tenant.context, tx, planned)
  return rows(tx.db, ids)
}

async function rows(db: Tx['db'], ids: string[]) {
  const found = await sql<{ id: string; status: string; agentId: string | null; atOnce: boolean }>`
    select id, status, agent_id as "agentId", lease_until is not null and assigned_at = created_at as "atOnce"
    from job where id = any(${ids}) order by id`.execute(db)
  return found.rows
}

const now = (ids: string[]) => rows(tenant.context.db, ids)
const makeJobs = (...kinds: JobKind[]) => transact(tenant.context, (tx) => make(tx, ...kinds))
const statuses = (jobs: { status: string }[]) => jobs.map(({ status }) => status)

async function finish(id: string): Promise<void> {
  const { jobId, fence } = manifestOf(await agent.next('job.assign', (f) => manifestOf(f).jobId === id))
  agent.send(finishedFrame(agent.identity, { jobId, fence }))
  await until('the end', async () => statuses(await now([id]))[0] === 'succeeded')
}

async function finishAll(): Promise<void> {
  const stop = new AbortController()
  const working = workAll(agent, undefined, stop.signal)
  await until('nothing to be open', async () => {
    const open = await sql`select from job where status in ('queued', 'assigned', 'running')`.execute(
      tenant.context.db,
    )
    return open.rows.length === 0
  })
  stop.abort()
  await working
}

/** Of a run that is worked off first. */
async function jobsOf(runId: string): Promise<{ kind: string; atOnce: boolean }[]> {
  const working = finishAll()
  expect((await ended(tenant.client, runId)).status).toBe('succeeded')
  await working
  const { rows: jobs } = await sql<{ kind: string; atOnce: boolean }>`
    select kind, assigned_at = created_at as "atOnce" from job where run_id = ${runId} order by id`.execute(
    tenant.context.db,
  )
  return jobs
}

describe('a job for an agent that is connected here and has a free slot', () => {
  it('is the agent’s in the transaction that makes it, under a lease, audited', async () => {
    const [job] = await makeJobs('sync')
    expect(job).toMatchObject({ status: 'assigned', agentId: agent.identity.agentId, atOnce: true })
    const assign = await agent.next('job.assign', (f) => manifestOf(f).jobId === job!.id)
    expect(manifestOf(assign)).toMatchObject({ fence: 1, kind: 'sync' })
    const audit = await auditOf(tenant, agent.identity.installId!, job!.id)
    expect(audit).toEqual(['job.queued ok', 'job.assigned ok'])
    agent.send(finishedFrame(agent.identity, manifestOf(assign)))
  })

  it('takes no more slots than there are; the rest goes in its order, and what comes later behind it', async () => {
    const first = await makeJobs('sync', 'sync', 'sync')
    expect(statuses(first)).toEqual(['assigned', 'assigned', 'queued'])
    const [last] = await makeJobs('sync')
    expect(last!.status).toBe('queued')
    await finish(first[0]!.id)
    await until('the one before', async () => statuses(await now([first[2]!.id]))[0] === 'assigned')
    expect(statuses(await now([last!.id]))).toEqual(['queued'])
    for (const { id } of [first[1]!, first[2]!, last!]) await finish(id)
  })

  it('gets the slot of the job whose end made it', async () => {
    await agent.close()
    await comeBack(1)
    const run = await tenant.client.call('deploys.create', {
      params: { ref: 'one' },
      body: { components: ['db'] },
    })
    expect(await jobsOf(run.id)).toEqual([
      { kind: 'sync', atOnce: true },
      { kind: 'deploy', atOnce: true },
    ])
  })

  it('gets it also after another had to queue: one that found the queue empty looks no further', async () => {
    await agent.close()
    await comeBack(1)
    await makeJobs('sync')
    const run = await tenant.client.call('deploys.create', {
      params: { ref: 'one' },
      body: { components: ['db'] },
    })
    expect(await jobsOf(run.id)).toEqual([
      { kind: 'sync', atOnce: false },
      { kind: 'deploy', atOnce: true },
    ])
  })

  it('leaves the slot free when its transaction does not happen', async () => {
    expect(statuses(await tryOut((tx) => make(tx, 'sync', 'sync')))).toEqual(['assigned', 'assigned'])
    const before = agent.frames.length
    expect(statuses(await makeJobs('sync', 'sync'))).toEqual(['assigned', 'assigned'])
    await until('both', () => agent.frames.length >= before + 2)
    expect(agent.frames.slice(before).map(({ type }) => type)).toEqual(['job.assign', 'job.assign'])
  })

  it('makes the agent connect again when nobody knows whether it happened', async () => {
    const broken = transact(tenant.context, async (tx) => {
      await make(tx, 'sync')
      await sql`select pg_terminate_backend(pg_backend_pid())`.execute(tx.db)
    })
    await expect(broken).rejects.toMatchObject({ code: '57P01' })
    expect(await agent.next('reject')).toMatchObject({ code: 'busy' })
    await agent.ended
    await comeBack()
  })
})

describe('a job goes into the queue', () => {
  it.each([
    ['has a newer session elsewhere', { session_id: 'another' }],
    ['was replaced', { status: 'replaced' as const }],
  ])('when its agent %s', async (_, change) => {
    const made = await tryOut(async (tx) => {
      await tx.db.updateTable('agent').set(change).where('id', '=', agent.identity.agentId).execute()
      return make(tx, 'sync')
    })
    expect(statuses(made)).toEqual(['queued'])
  })

  it('without waiting, while a session of its agent opens', async () => {
    const client = await tenant.context.pool.connect()
    try {
      await client.query('begin')
      await client.query('select from agent where id = $1 for update', [agent.identity.agentId])
      expect(statuses(await makeJobs('sync'))).toEqual(['queued'])
    } finally {
      await client.query('rollback')
      client.release()
    }
  })

  it('when its agent is connected to another process', async () => {
    const other = await tenant.another()
    const made = await transact(other.context, (tx) => make(tx, 'sync'))
    expect(statuses(made)).toEqual(['queued'])
    await finish(made[0]!.id)
    await other.stop()
  })
})
