import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Context } from '../context.ts'
import { enrolTestAgent } from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { createProcessWatch, forgetOtherProcesses } from './processes.ts'

let tenant: TestTenant
/** A process beside the tenant's own, whose looks this test makes one by one. */
let context: Context
let agentId: string

beforeAll(async () => {
  tenant = await startTestTenant()
  context = { ...tenant.context, processId: tenant.context.newId('process') }
  const { joinToken } = await tenant.client.call('agents.joinToken', { body: { role: 'build' } })
  ;({ agentId } = await enrolTestAgent(tenant.url, joinToken))
})
afterAll(() => tenant.stop())

/** As `openSessions` leaves it: committed, and not yet in the memory of its process. */
async function commitSession(): Promise<string> {
  const sessionId = context.newId('session')
  await context.db
    .updateTable('agent')
    .set({ session_id: sessionId, process_id: context.processId })
    .where('id', '=', agentId)
    .execute()
  return sessionId
}

async function sessionInRow(): Promise<string | null> {
  const row = await context.db
    .selectFrom('agent')
    .select('session_id')
    .where('id', '=', agentId)
    .executeTakeFirstOrThrow()
  return row.session_id
}

it('a session that is missing in one look is opening; in two it is dead', async () => {
  const look = createProcessWatch(context, { sessionIds: () => [] })
  await look()
  const sessionId = await commitSession()
  await look()
  expect(await sessionInRow()).toBe(sessionId)
  await look()
  expect(await sessionInRow()).toBeNull()
})

it('one that came into memory between two looks lives, until it is missing twice again', async () => {
  const here: string[] = []
  const look = createProcessWatch(context, { sessionIds: () => here })
  await look()
  const sessionId = await commitSession()
  await look()
  here.push(sessionId)
  await look()
  here.pop()
  await look()
  expect(await sessionInRow()).toBe(sessionId)
  await look()
  expect(await sessionInRow()).toBeNull()
})

it('the one process that a database can have forgets at its start what others left there', async () => {
  await createProcessWatch(context, { sessionIds: () => [] })()
  await commitSession()
  await forgetOtherProcesses({ ...context, processId: context.newId('process') })
  expect(await sessionInRow()).toBeNull()
})
