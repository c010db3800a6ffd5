import { parseEntry, type AuditEntry } from '@tenon/core'
import { createClient } from '@tenon/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { entriesOf } from '../testing/audit.ts'
import { rawRegistry, redeem } from '../testing/raw-registry.ts'
import { startTestTenant, type TestServer, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { builtApp } from '../testing/world.ts'

const REPOSITORY = 'apps/shop/web'

let a: TestTenant
let b: TestServer
let artifact: string
let source: string

const stored = async (content: string) => {
  async function* bytes() {
    yield Buffer.from(content)
  }
  const made = await a.context.registry.storeLayer(
    REPOSITORY,
    'application/x',
    'application/y',
    bytes(),
    1000,
  )
  return made.digest
}
const query = (text: string, ...values: unknown[]) => a.context.pool.query(text, values)

beforeAll(async () => {
  a = await startTestTenant()
  b = await a.another()
  await builtApp(a)
  artifact = await stored('what was built')
  await query(`update build set artifact_digest = $1 where component = 'web'`, artifact)
  source = (await a.client.call('sources.put', { body: new TextEncoder().encode('a source') })).digest
})
afterAll(() => a.stop())
afterEach(async () => {
  await a.assertSound()
  await b.assertSound()
})

/** Somebody with a token of their own, signed in to the registry of the other process. */
async function signedIn(
  role: 'viewer' | 'operator' | 'owner' = 'viewer',
  expiresInSeconds: number | null = null,
) {
  const { secret, token } = await a.client.call('tokens.create', {
    body: { name: role, role, expiresInSeconds },
  })
  const client = createClient({ url: a.url, token: secret })
  const login = await client.call('registry.login', { body: {} })
  const { bearer } = await redeem(b.url, login)
  return { client, token, secret, login, bearer, registry: rawRegistry(b.url, bearer) }
}

const factsOf = async (id: string) =>
  (await entriesOf(a, 'server'))
    .map(({ body }) => parseEntry(body) as AuditEntry)
    .filter(({ subject }) => subject.id === id)

describe('a registry login', () => {
  it.each(['viewer', 'operator', 'owner'] as const)(
    'lets a %s pull artifacts and plugins, and neither pull sources nor push nor delete',
    async (role) => {
      const { registry } = await signedIn(role)
      expect(await registry.get(`${REPOSITORY}/manifests/${artifact}`)).toBe(200)
      expect(await registry.get(`${REPOSITORY}/tags/list`)).toBe(200)
      expect(await registry.get('tenon/plugins/script/tags/list')).toBe(200)
      expect(await registry.get(`tenon/sources/manifests/${source}`)).toBe(403)
      expect(await registry.get('tenon/sources/tags/list')).toBe(403)
      expect((await registry.pushBlob(REPOSITORY, Buffer.from('mine'))).status).toBe(403)
      const deleted = await registry.call('DELETE', `${REPOSITORY}/manifests/${artifact}`)
      expect([403, 405]).toContain(deleted.status)
    },
  )

  it('is refused under another name, with another password, after its time, and by another tenant', async () => {
    const other = await startTestTenant()
    const { login } = await signedIn()
    const status = async (credential: { username: string; password: string }, url = a.url) =>
      (await redeem(url, credential)).status
    expect(await status(login)).toBe(200)
    expect(await status({ ...login, username: (await signedIn()).login.username })).toBe(401)
    expect(await status({ ...login, username: "nobody' or \0" })).toBe(401)
    expect(await status({ ...login, password: `${login.password}x` })).toBe(401)
    expect(await status(login, other.url)).toBe(401)
    await query('update registry_login set expires_at = now() where id = $1', login.username)
    expect(await status(login)).toBe(401)
    await other.stop()
  })

  it('and its bearers end on every process once the API token is revoked, has expired or lost its role', async () => {
    const all = await Promise.all([signedIn('viewer'), signedIn('viewer'), signedIn('viewer')])
    const [revoked, expired, given] = all
    for (const { registry } of all) expect(await registry.get('tenon/plugins/script/tags/list')).toBe(200)
    await a.client.call('tokens.revoke', { params: { id: revoked.token.id } })
    await query('update api_token set expires_at = now() where id = $1', expired.token.id)
    await given.client.call('registry.logout', { params: { id: given.login.username } })
    for (const { registry, login } of all) {
      expect((await redeem(b.url, login)).status).toBe(401)
      await until(
        'the bearer to end',
        async () => (await registry.get('tenon/plugins/script/tags/list')) === 401,
      )
    }
  })

  it('never outlives the API token, lasts an hour at most, and only its own holder ends it', async () => {
    const { client, login } = await signedIn('viewer', 120)
    const { items } = await a.client.call('tokens.list', {})
    expect(items.map(({ expiresAt }) => expiresAt)).toContain(login.expiresAt)
    await expect(client.call('registry.login', { body: { expiresInSeconds: 3601 } })).rejects.toMatchObject({
      code: 'bad_request',
    })
    const params = { id: login.username }
    await expect(a.client.call('registry.logout', { params })).rejects.toMatchObject({ code: 'not_found' })
    expect((await redeem(a.url, login)).status).toBe(200)
    expect(await client.call('registry.logout', { params })).toEqual(params)
    expect(await client.call('registry.logout', { params })).toEqual(params)
  })

  it('is audited when it is made, traded, refused and given back, in its holder’s name, without its secret', async () => {
    const { client, token, login, registry, bearer } = await signedIn()
    for (const _ of [1, 2]) expect((await redeem(a.url, login)).status).toBe(200)
    for (const digest of [artifact, source]) await registry.get(`tenon/sources/manifests/${digest}`)
    await until('the refusal to be written', async () => (await factsOf(login.username)).length === 3)
    await client.call('registry.logout', { params: { id: login.username } })
    const facts = await factsOf(login.username)
    expect(facts.map(({ action, outcome }) => `${action} ${outcome}`)).toEqual([
      'registry.login_issued ok',
      'registry.login_redeemed ok',
      'registry.login_refused refused',
      'registry.login_ended ok',
    ])
    const actor = { type: 'user', id: token.principal?.id, token: token.id }
    expect(facts.map((fact) => fact.actor)).toEqual(facts.map(() => actor))
    expect(facts[2]?.details).toMatchObject({ reason: 'not_granted', repository: 'tenon/sources' })
    const { rows } = await query('select * from registry_login')
    const all = JSON.stringify([rows, await entriesOf(a, 'server')])
    expect(all).not.toContain(login.password)
    expect(all).not.toContain(bearer)
  })

  it('that is guessed is written once and then counted', async () => {
    const written = async () =>
      (await entriesOf(a, 'server')).filter(({ body }) => body.includes('"reason":"unknown"')).length
    for (const guess of ['1', '2', '3'])
      await redeem(a.url, { username: 'rlg_x', password: `tenon-login-${guess}` })
    expect(await written()).toBe(1)
  })
})

describe('the tags of the vendor registry', () => {
  it('name the newest build of each version of the app, whatever was pushed under such a name', async () => {
    const { registry } = await signedIn()
    const digestOf = async (tag: string) => {
      const { status, body } = await registry.call('GET', `${REPOSITORY}/manifests/${tag}`)
      return status === 200
        ? (JSON.parse(body.toString()) as { layers: { digest: string }[] }).layers[0]
        : status
    }
    const found = await a.context.registry.storage.getManifest(REPOSITORY, artifact as `sha256:${string}`)
    for (const tag of ['v1', 'v9', 'mine']) {
      const forged = await a.context.registry.storage.getManifest(REPOSITORY, (await stored(tag)) as never)
      await a.context.registry.storage.putManifest(REPOSITORY, forged!, { tag })
    }
    const built = (JSON.parse(Buffer.from(found!.bytes).toString()) as { layers: object[] }).layers[0]
    expect(await digestOf('v1')).toEqual(built)
    expect(await digestOf('v9')).toBe(404)
    const { body } = await registry.call('GET', `${REPOSITORY}/tags/list`)
    expect(JSON.parse(body.toString())).toEqual({ name: REPOSITORY, tags: ['mine', 'v1'] })
  })

  it('name the version of each plugin', async () => {
    const { registry } = await signedIn()
    const { body } = await registry.call('GET', 'tenon/plugins/script/tags/list')
    const [tag = ''] = (JSON.parse(body.toString()) as { tags: string[] }).tags
    expect(tag).toMatch(/^\d+\.\d+\.\d+$/)
    expect(await registry.get(`tenon/plugins/script/manifests/${tag}`)).toBe(200)
    expect(await registry.get('tenon/plugins/script/manifests/0.0.0')).toBe(404)
  })
})
