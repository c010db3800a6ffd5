import { openSignedText, signText } from '@tenon/core'
import { proveResponse, type Enrolment, type EnrolResponse } from '@tenon/protocol'
import { generateKeyPairSync, sign } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { generateSigningKey, joinTokenKey, verify } from '../crypto.ts'
import { request } from '../testing/raw-api.ts'
import {
  connectAgent,
  enrolRequestOf,
  enrolTestAgent,
  openWire,
  postEnrol,
  shakeHands,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { builtApp, newInstall } from '../testing/world.ts'
import { auditOf } from '../testing/audit.ts'

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
  await builtApp(tenant)
})
afterAll(() => tenant.stop())
afterEach(() => tenant.assertSound())

async function joinToken(role: 'build' | 'setup' = 'setup'): Promise<string> {
  return (await tenant.client.call('agents.joinToken', { body: { role } })).joinToken
}

async function installToken(ref: string): Promise<string> {
  return (await tenant.client.call('installs.joinToken', { params: { ref } })).joinToken
}

const codeOf = (answer: { body: unknown }) => (answer.body as { error?: { code: string } }).error?.code

describe('a join token', () => {
  it('is traded for an identity', async () => {
    const { status, body } = await postEnrol(
      tenant.url,
      enrolRequestOf(await joinToken(), generateSigningKey()),
    )
    expect(status).toBe(200)
    const { enrolled } = body as EnrolResponse
    const { publicKey } = tenant.context.keys.links()[0]!
    expect(openSignedText('server-enrolled/1', enrolled, publicKey, verify)).toMatchObject({
      serverId: tenant.context.serverId,
      role: 'setup',
      installId: null,
    })
    expect(await auditOf(tenant, 'server')).toContain('agent.enrolled ok')
  })

  it('is stored so that who reads the database can enrol nobody with it', async () => {
    const token = await joinToken()
    const { rows } = await tenant.context.pool.query<Record<string, unknown>>('select * from join_token')
    const stored = rows.flatMap(Object.values).filter((value) => typeof value === 'string')
    expect(stored.filter((value) => value.includes(token.split('.')[2]!))).toEqual([])
    for (const value of stored) {
      const guessed = token.replace(/\.[^.]+(\.[^.]+)$/, `.${value.padEnd(43, 'A').slice(0, 43)}$1`)
      const answer = await postEnrol(tenant.url, enrolRequestOf(guessed, generateSigningKey()))
      expect([answer.status, codeOf(answer)]).toEqual([401, 'unauthorized'])
    }
  })

  it('enrols only the key that its holder signed for, also when somebody passes the request on', async () => {
    const passed = enrolRequestOf(await joinToken(), generateSigningKey())
    const own = generateSigningKey()
    const asked = JSON.parse(passed.enrolment.text) as Enrolment
    const mine = signText('agent-enrol/1', { ...asked, publicKey: own.publicKey }, own.sign)
    const changed = await postEnrol(tenant.url, { ...passed, enrolment: mine })
    expect([changed.status, codeOf(changed)]).toEqual([401, 'unauthorized'])
    expect((await postEnrol(tenant.url, passed)).status).toBe(200)
    const replayed = await postEnrol(tenant.url, passed)
    expect(JSON.parse((replayed.body as EnrolResponse).enrolled.text)).toMatchObject({
      publicKey: asked.publicKey,
    })
  })

  it('is proven by the server, for one question, without a word about its secret', async () => {
    const token = await joinToken()
    const [, id = '', secret = ''] = token.split('.')
    const ask = (tokenId: string) =>
      request(`${tenant.url}/agent/v1/prove`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ tokenId, nonce: 'AAAA', later: 'unknown fields are left out' }),
      })
    const { text } = await ask(id)
    const { proof, keys } = proveResponse.parse(JSON.parse(text))
    const said = openSignedText('server-proof/1', proof, keys[0]!.publicKey, verify)
    const tokenKey = joinTokenKey(secret).publicKey
    expect(said).toMatchObject({ purpose: 'enrol', tokenId: id, tokenKey, nonce: 'AAAA' })
    expect(text).not.toContain(secret)
    expect((await ask(`jtk_${'0'.repeat(26)}`)).status).toBe(401)
  })

  it('works once', async () => {
    const token = await joinToken()
    await enrolTestAgent(tenant.url, token)
    const again = await postEnrol(tenant.url, enrolRequestOf(token, generateSigningKey()))
    expect([again.status, codeOf(again)]).toEqual([409, 'token_used'])
    expect(await auditOf(tenant, 'server')).toContain('agent.enrol_refused refused')
  })

  it('works once even when ten try at the same time', async () => {
    const token = await joinToken()
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => postEnrol(tenant.url, enrolRequestOf(token, generateSigningKey()))),
    )
    expect(answers.filter((a) => a.status === 200)).toHaveLength(1)
    expect(answers.filter((a) => codeOf(a) === 'token_used')).toHaveLength(9)
  })

  it('does not work after its time', async () => {
    const token = await joinToken()
    const past = new Date(Date.now() - 1).toISOString()
    const id = token.split('.')[1]!
    await tenant.context.db.updateTable('join_token').set({ expires_at: past }).where('id', '=', id).execute()
    const answer = await postEnrol(tenant.url, enrolRequestOf(token, generateSigningKey()))
    expect([answer.status, codeOf(answer)]).toEqual([401, 'token_expired'])
  })

  it.each([
    ['with another secret', (t: string) => t.replace(/\.[^.]+(\.[^.]+)$/, `.${'A'.repeat(43)}$1`)],
    ['with an unknown id', (t: string) => t.replace(/jtk_\w+/, `jtk_${'0'.repeat(26)}`)],
    ['that is no token', () => 'let me in'],
    ['that is empty', () => ''],
  ])('%s is refused', async (_, change) => {
    const request = enrolRequestOf(change(await joinToken()), generateSigningKey())
    const answer = await postEnrol(tenant.url, request)
    expect([answer.status, codeOf(answer)]).toEqual([401, 'unauthorized'])
  })
})

describe('the key that enrols', () => {
  it('must have signed the request, and the token stays good', async () => {
    const token = await joinToken()
    const request = enrolRequestOf(token, generateSigningKey())
    const { enrolment } = request
    const changes = [
      { enrolment: { ...enrolment, signature: Buffer.alloc(64).toString('base64') } },
      { enrolment: { ...enrolment, signature: '' } },
      {
        enrolment: signText('agent-enrol/1', JSON.parse(enrolment.text), generateSigningKey().sign),
      },
    ]
    for (const change of changes) {
      const answer = await postEnrol(tenant.url, { ...request, ...change })
      expect([answer.status, codeOf(answer)]).toEqual([400, 'bad_request'])
    }
    expect((await postEnrol(tenant.url, request)).status).toBe(200)
  })

  it('must be an Ed25519 key', async () => {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const spki = publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
    const key = {
      ...generateSigningKey(),
      publicKey: spki,
      sign: (bytes: Uint8Array) => sign('sha256', bytes, privateKey).toString('base64'),
    }
    expect(codeOf(await postEnrol(tenant.url, enrolRequestOf(await joinToken(), key)))).toBe('bad_request')
  })

  it('enrols once, whatever token it brings', async () => {
    const key = generateSigningKey()
    await enrolTestAgent(tenant.url, await joinToken(), key)
    const again = await postEnrol(tenant.url, enrolRequestOf(await joinToken(), key))
    expect([again.status, codeOf(again)]).toEqual([409, 'conflict'])
  })
})

describe('an agent that takes over an install', () => {
  it('ends the one before, at once', async () => {
    await newInstall(tenant.client, 'taken-over')
    const first = await connectAgent(
      tenant.url,
      await enrolTestAgent(tenant.url, await installToken('taken-over')),
    )
    const second = await enrolTestAgent(tenant.url, await installToken('taken-over'))
    expect(await first.next('reject')).toMatchObject({ code: 'superseded' })
    const wire = await openWire(tenant.url)
    expect(await shakeHands(wire, first.identity)).toMatchObject({ type: 'reject', code: 'superseded' })
    const newer = await connectAgent(tenant.url, second)
    const { agent } = await tenant.client.call('installs.get', { params: { ref: 'taken-over' } })
    expect(agent).toMatchObject({ id: second.agentId, connected: true })
    await newer.close()
  })

  it('is one, when two tokens are used at the same time', async () => {
    const { install } = await newInstall(tenant.client, 'contested')
    const made = await Promise.all([installToken('contested'), installToken('contested')])
    await Promise.all(made.map((token) => enrolTestAgent(tenant.url, token)))
    const agents = await tenant.context.db
      .selectFrom('agent')
      .select('status')
      .where('install_id', '=', install.id)
      .execute()
    expect(agents.map((a) => a.status).toSorted()).toEqual(['enrolled', 'replaced'])
  })
})

describe('starts of one agent', () => {
  const connect = async (bootCounter: number, bootId: string, identity: Parameters<typeof shakeHands>[1]) => {
    const wire = await openWire(tenant.url)
    return { wire, answer: await shakeHands(wire, identity, { bootCounter, bootId }) }
  }

  it('that are newer supersede, the same one reconnects, an older or a copied one is quarantined', async () => {
    const identity = await enrolTestAgent(tenant.url, await joinToken())
    const one = await connect(1, 'start one, of the test', identity)
    expect(one.answer).toMatchObject({ type: 'welcome' })
    const two = await connect(2, 'start two, of the test', identity)
    expect(two.answer).toMatchObject({ type: 'welcome' })
    expect(await one.wire.next('reject')).toMatchObject({ code: 'superseded' })
    const older = await connect(1, 'start one, of the test', identity)
    expect(older.answer).toMatchObject({ type: 'reject', code: 'quarantined' })
    const copy = await connect(2, 'a copy with that counter', identity)
    expect(copy.answer).toMatchObject({ type: 'reject', code: 'quarantined' })
    const again = await connect(2, 'start two, of the test', identity)
    expect(again.answer).toMatchObject({ type: 'welcome' })
    expect(two.wire.frames.filter((f) => f.type === 'reject')).toHaveLength(1)
    const audit = await auditOf(tenant, 'server', identity.agentId)
    expect(audit.filter((a) => a !== 'agent.enrolled ok')).toEqual([
      'agent.connected ok',
      'agent.superseded_earlier ok',
      'agent.quarantined refused',
      'agent.quarantined refused',
    ])
    await again.wire.close()
  })

  it('are believed only with the signature of the key that enrolled', async () => {
    const identity = await enrolTestAgent(tenant.url, await joinToken())
    const wire = await openWire(tenant.url)
    const answer = await shakeHands(wire, identity, { signWith: generateSigningKey() })
    expect(answer).toMatchObject({ type: 'reject', code: 'bad_signature' })
    const stranger = await openWire(tenant.url)
    const unknown = { ...identity, agentId: `agt_${'0'.repeat(26)}` }
    expect(await shakeHands(stranger, unknown)).toMatchObject({ type: 'reject', code: 'unknown_agent' })
  })

  it('end when the agent is revoked, and it cannot come back', async () => {
    const identity = await enrolTestAgent(tenant.url, await joinToken())
    const agent = await connectAgent(tenant.url, identity)
    await tenant.client.call('agents.revoke', { params: { id: identity.agentId } })
    expect(await agent.next('reject')).toMatchObject({ code: 'revoked' })
    const wire = await openWire(tenant.url)
    expect(await shakeHands(wire, identity)).toMatchObject({ type: 'reject', code: 'revoked' })
  })
})
