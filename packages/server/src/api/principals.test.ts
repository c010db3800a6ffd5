import { parseEntry, type AuditEntry } from '@tenon/core'
import { createClient, type Client } from '@tenon/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { entriesOf } from '../testing/audit.ts'
import type { TestAgent } from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp, workAll } from '../testing/world.ts'

let tenant: TestTenant
let agent: TestAgent
beforeAll(async () => {
  tenant = await startTestTenant()
  await builtApp(tenant)
  agent = await activeInstall(tenant, 'acme')
})
afterAll(() => tenant.stop())
afterEach(() => tenant.assertSound())

type Wanted = { name: string; kind?: 'user' | 'service'; principal?: string }

async function somebody(wanted: Wanted) {
  const { secret, token } = await tenant.client.call('tokens.create', {
    body: { ...wanted, role: 'operator' },
  })
  return { client: createClient({ url: tenant.url, token: secret }), token, principal: token.principal! }
}
const deploy = (client: Client) =>
  client.call('deploys.create', { params: { ref: 'acme' }, body: { components: ['db'] } })

async function entriesAbout(subject: string): Promise<AuditEntry[]> {
  const { installId } = agent.identity
  const entries = (await entriesOf(tenant, installId!)).map(({ body }) => parseEntry(body) as AuditEntry)
  return entries.filter((entry) => entry.subject.id === subject)
}

describe('who made a run', () => {
  it('is a principal: two with the same name are two', async () => {
    const [one, two] = [await somebody({ name: 'ci', kind: 'service' }), await somebody({ name: 'ci' })]
    expect(one.principal.id).not.toBe(two.principal.id)
    const [a, b] = [await deploy(one.client), await deploy(two.client)]
    expect([a.creator, a.createdBy]).toEqual([{ ...one.principal, kind: 'service' }, 'ci'])
    expect([b.creator, b.createdBy]).toEqual([{ ...two.principal, kind: 'user' }, 'ci'])
    const [created] = await entriesAbout(a.id)
    expect(created).toMatchObject({
      action: 'run.created',
      actor: { type: 'service', id: one.principal.id, token: one.token.id },
    })
    for (const { id } of [b, a]) await tenant.client.call('runs.cancel', { params: { id } })
  })

  it('is the same one with each of its tokens, under the name of the principal', async () => {
    const anna = await somebody({ name: 'anna' })
    const both = somebody({ name: 'ci', kind: 'service', principal: anna.principal.id })
    await expect(both).rejects.toMatchObject({
      code: 'bad_request',
      remedy: expect.stringContaining('--service'),
    })
    const laptop = await somebody({ name: 'laptop', principal: anna.principal.id })
    expect(laptop.principal).toEqual(anna.principal)
    const { you } = await laptop.client.call('server.info', {})
    expect(you).toMatchObject({ name: 'laptop', principal: anna.principal })
    const run = await deploy(laptop.client)
    expect(run).toMatchObject({ createdBy: 'anna', creator: anna.principal })
    await tenant.client.call('runs.cancel', { params: { id: run.id } })
    const nobody = { name: 'x', principal: `prn_${'0'.repeat(26)}` }
    await expect(somebody(nobody)).rejects.toMatchObject({ code: 'not_found' })
  })

  it('is a name alone where a process of the version before wrote no more', async () => {
    const run = await deploy((await somebody({ name: 'bob' })).client)
    await tenant.context.pool.query('update run set creator_kind = null, creator_id = null where id = $1', [
      run.id,
    ])
    const seen = await tenant.client.call('runs.get', { params: { id: run.id } })
    expect([seen.creator, seen.createdBy]).toEqual([null, 'bob'])
    await tenant.client.call('runs.cancel', { params: { id: run.id } })
  })
})

it('an approval knows who asked, and the audit names who is who', async () => {
  const [asker, approver] = [await somebody({ name: 'same' }), await somebody({ name: 'same' })]
  await tenant.client.call('installs.update', { params: { ref: 'acme' }, body: { approval: 'prompt' } })
  const run = await deploy(asker.client)
  const stop = new AbortController()
  const working = workAll(agent, undefined, stop.signal)
  const step = await until('the question', async () => {
    const { steps } = await tenant.client.call('runs.get', { params: { id: run.id } })
    return steps.find(({ kind, status }) => kind === 'approval' && status === 'active')
  })
  expect(step.askedBy).toEqual(asker.principal)
  const params = { id: run.id, step: step.id }
  await approver.client.call('steps.approve', { params, body: { digest: step.asked!.digest } })
  const approved = (await entriesAbout(step.id)).find(({ action }) => action === 'step.approved')
  expect(approved?.actor).toEqual({ type: 'user', id: approver.principal.id, token: approver.token.id })
  const { names } = await tenant.client.call('audit.entries', {
    params: { chain: agent.identity.installId! },
    query: { limit: 1000 },
  })
  expect(names).toMatchObject({ [asker.principal.id]: 'same', [approver.principal.id]: 'same' })
  await until(
    'the end',
    async () => (await tenant.client.call('runs.get', { params: { id: run.id } })).finishedAt,
  )
  stop.abort()
  await working
})
