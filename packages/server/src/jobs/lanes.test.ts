import type { JobKind } from '@tenon/core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { transact } from '../store/transaction.ts'
import {
  connectAgent,
  finishedFrame,
  manifestOf,
  startedFrame,
  type TestAgent,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp } from '../testing/world.ts'
import { createJobs } from './create.ts'

let tenant: TestTenant
let agent: TestAgent

beforeAll(async () => {
  tenant = await startTestTenant({ heartbeatSeconds: 60 })
  await builtApp(tenant)
  agent = await activeInstall(tenant, 'one')
  await agent.close()
})
afterAll(() => tenant.stop())

const job = (id: string) => tenant.client.call('jobs.get', { params: { id } })

function queue(...kinds: JobKind[]): Promise<string[]> {
  const plugin = { name: 'script', repository: 'plugins/script', digest: null }
  const operation = { operation: 'debug' as const, plugin, component: 'db', artifacts: [], config: {} }
  const operations = [{ ...operation, approvedPlan: null }]
  const { installId } = agent.identity
  const planned = kinds.map((kind) => ({
    plan: { kind, role: 'install' as const, installId, operations },
    owner: {},
  }))
  return transact(tenant.context, async (tx) => createJobs(tenant.context, tx, planned))
}

async function finish(id: string): Promise<void> {
  const assigned = await agent.next('job.assign', (frame) => manifestOf(frame).jobId === id)
  const manifest = manifestOf(assigned)
  agent.send(startedFrame(manifest))
  agent.send(finishedFrame(agent.identity, manifest))
  await until('the end', async () => (await job(id)).status === 'succeeded')
}

it('a debug job goes out at once though every ordinary slot is taken; the queue says by whom', async () => {
  const options = { bootCounter: 2, bootId: 'the second start of it', slots: 1, interactiveSlots: 1 }
  agent = await connectAgent(tenant.url, agent.identity, options)
  const [first, second, third] = await queue('sync', 'sync', 'debug', 'debug')
  const ids = [first!, second!, third!]
  await until('two to be out', async () => (await job(third!)).status === 'assigned')
  expect((await Promise.all(ids.map(job))).map(({ status }) => status)).toEqual([
    'assigned',
    'queued',
    'assigned',
  ])
  expect((await job(second!)).waiting).toMatchObject({
    code: 'no_free_slot',
    message: expect.stringContaining(`busy with sync ${first}`) as string,
  })
  const message = 'it needs 2 GiB of memory, and 3 GiB of 4 GiB are given out, to deploy job_x'
  agent.send({ type: 'job.progress', jobId: third!, fence: 1, message, fraction: null })
  await until('the agent’s word', async () => (await job(third!)).waiting?.code === 'agent_capacity')
  expect((await job(third!)).waiting?.message).toBe(`The agent has it, but: ${message}.`)
  for (const id of [third!, first!, second!]) await finish(id)
})
