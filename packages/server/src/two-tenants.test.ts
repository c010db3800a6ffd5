import { checkManifest, verifySignedHead, type JobManifest } from '@tenon/core'
import { createClient, jobManifest, parseJoinToken } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fingerprint, generateSigningKey, sha256, verify } from './crypto.ts'
import { request } from './testing/raw-api.ts'
import { rawRegistry, redeem } from './testing/raw-registry.ts'
import {
  connectAgent,
  enrolRequestOf,
  finishedFrame,
  manifestOf,
  openWire,
  postEnrol,
  shakeHands,
  type Frame,
  type TestAgent,
} from './testing/test-agent.ts'
import { startTestTenant, type TestTenant } from './testing/test-server.ts'
import { activeInstall, builtApp } from './testing/world.ts'

let a: TestTenant
let b: TestTenant
let ofA: TestAgent
let ofB: TestAgent
let jobOfA: Frame<'job.assign'>
let jobOfB: Frame<'job.assign'>

beforeAll(async () => {
  ;[a, b] = await Promise.all([startTestTenant(), startTestTenant()])
  await Promise.all([builtApp(a), builtApp(b)])
  ;[ofA, ofB] = await Promise.all([activeInstall(a, 'one'), activeInstall(b, 'one')])
  ;[jobOfA, jobOfB] = await Promise.all([jobOn(a, ofA), jobOn(b, ofB)])
})
afterAll(() => Promise.all([a.stop(), b.stop()]))

async function jobOn(tenant: TestTenant, agent: TestAgent) {
  const run = await tenant.client.call('deploys.create', {
    params: { ref: 'one' },
    body: { components: ['db'] },
  })
  return agent.next('job.assign', (f) => manifestOf(f).jobId === run.steps[0]!.jobId)
}

const keysOf = async (tenant: TestTenant) =>
  new Map((await tenant.client.call('server.info', {})).keys.map((k) => [k.keyId, k.publicKey]))

describe('what one tenant gave means nothing to the other', () => {
  it('an API token', async () => {
    const stranger = createClient({ url: b.url, token: a.ownerToken })
    await expect(stranger.call('server.info', {})).rejects.toMatchObject({ code: 'unauthorized' })
  })

  it('a join token', async () => {
    const { joinToken } = await a.client.call('agents.joinToken', { body: { role: 'build' } })
    const answer = await postEnrol(b.url, enrolRequestOf(joinToken, generateSigningKey()))
    expect(answer).toMatchObject({ status: 401, body: { error: { code: 'unauthorized' } } })
  })

  it('the question whether it made a join token', async () => {
    const { joinToken } = await a.client.call('agents.joinToken', { body: { role: 'build' } })
    const prove = (url: string) =>
      request(`${url}/agent/v1/prove`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ tokenId: parseJoinToken(joinToken)!.id, nonce: 'AAAA' }),
      })
    const { keys } = JSON.parse((await prove(a.url)).text) as { keys: { publicKey: string }[] }
    const fingerprints = keys.map((key) => fingerprint(key.publicKey))
    expect(fingerprints).toContain(parseJoinToken(joinToken)!.fingerprint)
    expect((await prove(b.url)).status).toBe(401)
  })

  it('an agent’s identity', async () => {
    const wire = await openWire(b.url)
    expect(await shakeHands(wire, ofA.identity)).toMatchObject({ type: 'reject', code: 'unknown_agent' })
  })

  it('an agent’s handshake, even under an id that the other knows', async () => {
    const wire = await openWire(b.url)
    const posing = { ...ofB.identity, key: ofA.identity.key }
    expect(await shakeHands(wire, posing)).toMatchObject({ type: 'reject', code: 'bad_signature' })
  })

  it('a signed manifest: an agent refuses the other’s, and one that names the other’s server', async () => {
    const { manifest: document } = jobOfA
    const check = async (keys: ReadonlyMap<string, string>) =>
      checkManifest<JobManifest>(
        {
          document,
          context: 'job-manifest/1',
          keys,
          serverId: b.context.serverId,
          target: { role: 'install', installId: ofB.identity.installId },
          nowMs: Date.now(),
          skewMs: 0,
          verify,
          sha256,
        },
        (value) => jobManifest.safeParse(value).data,
      )
    expect(await check(await keysOf(b))).toMatchObject({ ok: false, code: 'unknown_key' })
    expect(await check(await keysOf(a))).toMatchObject({ ok: false, code: 'wrong_server' })
    const posing = new Map(
      [...(await keysOf(a)).keys()].map((id) => [id, [...ofB.identity.keys][0]!.publicKey]),
    )
    expect(await check(posing)).toMatchObject({ ok: false, code: 'bad_signature' })
  })

  it('a registry token', async () => {
    const { jobId, fence } = manifestOf(jobOfB)
    ofB.send({ type: 'credential.request', requestId: 1, jobId, fence, want: 'registry' })
    const { credential } = await ofB.next('credential.grant')
    const { oneTime } = credential as { oneTime: { username: string; password: string } }
    expect(await redeem(a.url, oneTime)).toMatchObject({ status: 401 })
    const { bearer } = await redeem(b.url, oneTime)
    const { repository, digest } = manifestOf(jobOfB).operations[0]!.artifacts[0]!
    const path = `${repository}/manifests/${digest}`
    expect(await rawRegistry(b.url, bearer).get(path)).toBe(200)
    expect(await rawRegistry(a.url, bearer).get(path)).toBe(401)
  })

  it('the signature on a report', async () => {
    const { jobId, fence } = manifestOf(jobOfB)
    ofB.send(finishedFrame(ofB.identity, { jobId, fence }, {}, ofA.identity.key))
    expect(await ofB.next('reject')).toMatchObject({ code: 'bad_signature' })
    expect((await b.client.call('jobs.get', { params: { id: jobId } })).status).toBe('assigned')
    ofB = await connectAgent(b.url, ofB.identity)
  })

  it('an audit head', async () => {
    const { chains } = await a.client.call('audit.chains', {})
    for (const head of chains) {
      expect(verifySignedHead(head, await keysOf(a), verify)).toBeUndefined()
      expect(verifySignedHead(head, await keysOf(b), verify)).toMatchObject({ code: 'bad_head_signature' })
    }
    await expect(
      b.client.call('audit.entries', { params: { chain: ofA.identity.installId! }, query: {} }),
    ).rejects.toMatchObject({ code: 'not_found' })
  })

  it('an audit head that an agent kept: a chain that does not hold it is noticed', async () => {
    const kept = { chain: ofB.identity.installId!, seq: 1, hash: 'f'.repeat(64) }
    ofB = await connectAgent(b.url, ofB.identity, { auditHead: kept })
    const { rows } = await b.context.pool.query(
      `select 1 from audit_pending where before like '%audit.mismatch%' union all select 1 from audit_entry where action = 'audit.mismatch'`,
    )
    expect(rows).toHaveLength(1)
    expect(b.errors.splice(0)).toEqual([expect.stringContaining('audit chain no longer holds')])
  })
})
