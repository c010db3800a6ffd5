import { openSignedText, signText } from '@tenon/core'
import { createClient, proveResponse, type Enrolment, type EnrolResponse } from '@tenon/protocol'
import { generateKeyPairSync, sign } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { generateSigningKey, joinTokenKey, verify } from '../crypto.ts'
import { auditOf } from '../testing/audit.ts'
import { request } from '../testing/raw-api.ts'
import {
  connectAgent,
  enrolRequestOf,
  enrolTestAgent,
  eventFrame,
  manifestOf,
  openWire,
  postEnrol,
  shakeHands,
  type TestAgent,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { builtApp, newInstall } from '../testing/world.ts'

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

  it('of before the upgrade, of which no key was kept, is called that and not another server’s', async () => {
    const token = await joinToken()
    const [, id = ''] = token.split('.')
    await tenant.context.pool.query('update join_token set public_key = null where id = $1', [id])
    const proven = await request(`${tenant.url}/agent/v1/prove`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ tokenId: id, nonce: 'AAAA' }),
    })
    const enrolled = await postEnrol(tenant.url, enrolRequestOf(token, generateSigningKey()))
    for (const { status, body } of [{ ...proven, body: JSON.parse(proven.text) as unknown }, enrolled]) {
      expect(status).toBe(401)
      expect(body).toMatchObject({
        error: {
          code: 'unauthorized',
          message: 'this join token was made before the server was upgraded',
          remedy: 'Ask for a new join token.',
        },
      })
    }
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

/** What an agent signs when its owner gives it up. */
function releaseOf({ identity }: TestAgent, at = new Date().toISOString()) {
  return eventFrame(identity, { seq: 1, at, action: 'agent.released', jobId: null, details: {} })
}

async function inPlace(install: string): Promise<TestAgent> {
  await newInstall(tenant.client, install)
  return connectAgent(tenant.url, await enrolTestAgent(tenant.url, await installToken(install)))
}

describe('an agent that takes over an install', () => {
  it('waits for the word of the one before, then ends it at once', async () => {
    const first = await inPlace('taken-over')
    const token = await installToken('taken-over')
    const key = generateSigningKey()
    const early = await postEnrol(tenant.url, enrolRequestOf(token, key))
    expect([early.status, codeOf(early)]).toEqual([409, 'agent_in_place'])
    expect((early.body as { error: object }).error).toMatchObject({
      remedy: expect.stringMatching(/`tenon agent release`.*`tenon agent revoke agt_/) as string,
    })
    expect(first.isOpen()).toBe(true)

    first.send(releaseOf(first))
    await first.next('event.ack')
    const second = await enrolTestAgent(tenant.url, token, key)
    expect(await first.next('reject')).toMatchObject({ code: 'superseded' })
    const wire = await openWire(tenant.url)
    expect(await shakeHands(wire, first.identity)).toMatchObject({ type: 'reject', code: 'superseded' })
    const newer = await connectAgent(tenant.url, second)
    const { agent } = await tenant.client.call('installs.get', { params: { ref: 'taken-over' } })
    expect(agent).toMatchObject({ id: second.agentId, connected: true })
    await newer.close()
  })

  it('waits also for one that is away, until an owner of the server ends that one', async () => {
    const first = await inPlace('burned')
    await first.close()
    const token = await installToken('burned')
    const early = await postEnrol(tenant.url, enrolRequestOf(token, generateSigningKey()))
    expect(codeOf(early)).toBe('agent_in_place')
    await tenant.client.call('agents.revoke', { params: { id: first.identity.agentId } })
    await enrolTestAgent(tenant.url, token)
  })

  it('needs more than a word given long ago', async () => {
    const first = await inPlace('released-once')
    first.send(releaseOf(first, new Date(Date.now() - 90_000_000).toISOString()))
    await first.next('event.ack')
    const token = await installToken('released-once')
    const answer = await postEnrol(tenant.url, enrolRequestOf(token, generateSigningKey()))
    expect(codeOf(answer)).toBe('agent_in_place')
    await first.close()
  })

  it('brings a token of an owner of the server, which names whom it replaces', async () => {
    const { install } = await newInstall(tenant.client, 'of-a-customer')
    const { secret } = await tenant.client.call('tokens.create', {
      body: { name: 'operator of takeovers', role: 'operator' },
    })
    const operator = createClient({ url: tenant.url, token: secret })
    const params = { ref: 'of-a-customer' }
    const made = await operator.call('installs.joinToken', { params })
    const ahead = await operator.call('installs.joinToken', { params })
    expect(made.replaces).toBeNull()
    const { agentId } = await enrolTestAgent(tenant.url, made.joinToken)
    await expect(operator.call('installs.joinToken', { params })).rejects.toMatchObject({ code: 'forbidden' })
    await tenant.client.call('agents.revoke', { params: { id: agentId } })
    await expect(operator.call('installs.joinToken', { params })).rejects.toMatchObject({ code: 'forbidden' })
    const answer = await postEnrol(tenant.url, enrolRequestOf(ahead.joinToken, generateSigningKey()))
    expect(codeOf(answer)).toBe('conflict')

    const { joinToken, replaces } = await tenant.client.call('installs.joinToken', { params })
    expect(replaces).toBe(agentId)
    await enrolTestAgent(tenant.url, joinToken)
    const { rows } = await tenant.context.pool.query<{ body: string }>(
      'select body from audit_entry where chain = $1 order by seq',
      [install.id],
    )
    const created = rows.map(({ body }) => JSON.parse(body) as { action: string; details: object })
    expect(created.filter((entry) => entry.action === 'join_token.created').at(-1)?.details).toMatchObject({
      replaces: agentId,
    })
  })

  it('is never let in by a token of a sandbox job, which no owner asked for', async () => {
    const setup = await connectAgent(tenant.url, await enrolTestAgent(tenant.url, await joinToken()))
    const body = { name: 'of-a-sandbox', app: 'shop', sandbox: { type: 'local' as const, config: {} } }
    await tenant.client.call('installs.create', { body })
    const { jobId, fence } = manifestOf(await setup.next('job.assign'))
    const granted = async (requestId: number) => {
      setup.send({ type: 'credential.request', requestId, jobId, fence, want: 'join-token' })
      const { credential } = await setup.next('credential.grant', (f) => f.requestId === requestId)
      return (credential as { joinToken: string }).joinToken
    }
    const { agentId } = await enrolTestAgent(tenant.url, await granted(1))
    const again = await granted(2)
    await tenant.client.call('agents.revoke', { params: { id: agentId } })
    const ofAnother = [again, await granted(3)]
    for (const token of ofAnother) {
      const answer = await postEnrol(tenant.url, enrolRequestOf(token, generateSigningKey()))
      expect([answer.status, codeOf(answer)]).toEqual([409, 'conflict'])
    }
    await enrolTestAgent(tenant.url, await installToken('of-a-sandbox'))
    await setup.close()
  })

  it('is one, when two tokens are used at the same time', async () => {
    const { install } = await newInstall(tenant.client, 'contested')
    const made = await Promise.all([installToken('contested'), installToken('contested')])
    const answers = await Promise.all(
      made.map((token) => postEnrol(tenant.url, enrolRequestOf(token, generateSigningKey()))),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409])
    const agents = await tenant.context.db
      .selectFrom('agent')
      .select('status')
      .where('install_id', '=', install.id)
      .execute()
    expect(agents.map((a) => a.status)).toEqual(['enrolled'])
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
