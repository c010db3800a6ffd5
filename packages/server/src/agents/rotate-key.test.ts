import { signingBytes, signKeyChange } from '@tenon/core'
import { keyAccepted } from '@tenon/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { generateSigningKey, type SigningKey } from '../crypto.ts'
import { auditOf } from '../testing/audit.ts'
import { idleAgent } from '../testing/idle-agent.ts'
import { connectAgent, eventFrame, openWire, shakeHands, type TestAgent } from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { builtApp, installAgent, newInstall } from '../testing/world.ts'

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
  await builtApp(tenant)
})
afterAll(() => tenant.stop())
afterEach(() => tenant.assertSound())

async function ask(body: object) {
  const response = await fetch(`${tenant.url}/agent/v1/rotate-key`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: response.status, body: (await response.json()) as { accepted: { text: string } } }
}

const changeOf = ({ identity }: TestAgent, next: SigningKey, before = identity.key) => ({
  change: signKeyChange(identity.agentId, before, next),
  recipientSignature: null,
})

describe('a new key of an agent', () => {
  it('takes the place of the one that signed for it, as often as it is asked', async () => {
    const agent = await idleAgent(tenant)
    const { agentId } = agent.identity
    const next = generateSigningKey()
    for (const _ of [1, 2]) {
      const { status, body } = await ask(changeOf(agent, next))
      expect(status).toBe(200)
      expect(keyAccepted.parse(JSON.parse(body.accepted.text))).toEqual({
        agentId,
        serverId: tenant.context.serverId,
        publicKey: next.publicKey,
      })
    }
    const old = await shakeHands(await openWire(tenant.url), agent.identity, { bootCounter: 2 })
    expect(old).toMatchObject({ type: 'reject', code: 'bad_signature' })
    const identity = { ...agent.identity, key: next }
    const connected = await connectAgent(tenant.url, identity, { bootCounter: 2 })

    const at = new Date().toISOString()
    connected.send(
      eventFrame(agent.identity, { seq: 1, at, action: 'agent.swept', jobId: null, details: {} }),
    )
    await connected.next('event.ack')
    const audit = await auditOf(tenant, 'server', agentId)
    expect(audit.filter((entry) => entry === 'agent.key_accepted ok')).toHaveLength(1)
    const { agents } = await tenant.client.call('audit.chains', {})
    expect(agents.find((each) => each.agentId === agentId)).toMatchObject({
      publicKey: next.publicKey,
      keyChanges: [{ text: changeOf(agent, next).change.text }],
    })
    await connected.close()
  })

  it('is refused when the key that counts did not sign for it, or it did not sign itself', async () => {
    const agent = await idleAgent(tenant)
    const [next, stranger] = [generateSigningKey(), generateSigningKey()]
    const posing = { ...stranger, publicKey: agent.identity.key.publicKey }
    const wrong = [
      [changeOf(agent, next, stranger), 409],
      [changeOf(agent, next, posing), 400],
      [changeOf(agent, { ...stranger, publicKey: next.publicKey }), 400],
      [{ ...changeOf(agent, next), change: { text: 'no JSON', signature: 'AAAA' } }, 400],
    ] as const
    for (const [body, status] of wrong) expect((await ask(body)).status).toBe(status)
    const back = generateSigningKey()
    expect((await ask(changeOf(agent, next))).status).toBe(200)
    expect((await ask(changeOf(agent, back))).status).toBe(409)
    expect((await ask(changeOf(agent, agent.identity.key, next))).status).toBe(409)
    await agent.close()
  })

  it('is refused of an agent that was ended', async () => {
    const agent = await idleAgent(tenant)
    await tenant.client.call('agents.revoke', { params: { id: agent.identity.agentId } })
    expect((await ask(changeOf(agent, generateSigningKey()))).status).toBe(401)
  })

  it('signs what secrets are sealed to, from the same moment', async () => {
    await newInstall(tenant.client, 'sealed-to')
    const agent = await installAgent(tenant, 'sealed-to', { recipient: 'age1of-this-install' })
    const { agentId } = agent.identity
    const next = generateSigningKey()
    const recipient = 'age1of-this-install'
    const recipientSignature = next.sign(signingBytes('agent-recipient/1', { agentId, recipient }))
    await ask({ ...changeOf(agent, next), recipientSignature })
    const offered = await tenant.client.call('installs.recipient', { params: { ref: 'sealed-to' } })
    expect(offered).toMatchObject({
      installName: 'sealed-to',
      agentPublicKey: next.publicKey,
      recipient,
      signature: recipientSignature,
      keyChanges: [{ text: expect.stringContaining(next.publicKey) as string }],
    })
    await agent.close()
  })
})
