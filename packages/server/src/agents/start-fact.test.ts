import { isSignedBy, parseEntry, type AuditEntry, type SignedDocument } from '@tenon/core'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { verify } from '../crypto.ts'
import { entriesOf } from '../testing/audit.ts'
import { connectAgent, enrolTestAgent } from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
})
afterAll(() => tenant.stop())
afterEach(() => tenant.assertSound())

it('a start is told in the audit by the agent’s own signed words, of which a long list is a digest', async () => {
  const { joinToken } = await tenant.client.call('agents.joinToken', { body: { role: 'setup' } })
  const identity = await enrolTestAgent(tenant.url, joinToken)
  const inventory = Array.from({ length: 1000 }, () => ({
    jobId: tenant.context.newId('job'),
    fence: 1,
    state: 'finished' as const,
  }))
  for (const options of [{ bootCounter: 1 }, { bootCounter: 2, inventory }]) {
    const bootId = `start number ${options.bootCounter} of the test`
    await (await connectAgent(tenant.url, identity, { ...options, bootId })).close()
  }
  const entries = (await entriesOf(tenant, 'server')).map(({ body }) => parseEntry(body) as AuditEntry)
  const told = entries.flatMap(({ actor, details: { hello } }) =>
    actor.id === identity.agentId && hello ? [hello as unknown as SignedDocument & { digest?: string }] : [],
  )
  const [short, long] = told
  expect(isSignedBy('agent-hello/2', short!, identity.key.publicKey, verify)).toBe(true)
  expect(JSON.parse(short!.text)).toMatchObject({ agentId: identity.agentId, bootCounter: 1 })
  expect(long).toEqual({
    digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) as unknown,
    keyId: expect.any(String) as unknown,
    signature: expect.any(String) as unknown,
  })
})
