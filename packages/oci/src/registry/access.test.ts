import { randomBytes } from 'node:crypto'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTokenIssuer, pushArtifact, sha256Digest } from '../index.ts'
import type { RegistryEvent, RegistryLogRecord } from '../index.ts'
import { rawRequest } from '../testing/raw-http.ts'
import { createRegistryWorld, NOW } from '../testing/registry-world.ts'
import type { RegistryWorld } from '../testing/registry-world.ts'
import { readBearer } from './access.ts'

const both: ('pull' | 'push')[] = ['pull', 'push']
const grant = { subject: 'job-1', repositories: [{ name: 'a/b', actions: both }] }

describe('a token', () => {
  const issuer = createTokenIssuer(Buffer.alloc(32, 1))

  it('gives back the grant it was issued for until it expires', () => {
    const token = issuer.issue(grant, 60, NOW)
    expect(issuer.verify(token, NOW + 59_000)).toEqual({ ok: true, grant })
    expect(issuer.verify(token, NOW + 60_000)).toEqual({ ok: false, reason: 'expired', subject: 'job-1' })
  })

  it('is refused with another secret', () => {
    const other = createTokenIssuer(Buffer.alloc(32, 2))
    expect(other.verify(issuer.issue(grant, 60, NOW), NOW)).toEqual({ ok: false, reason: 'forged' })
  })

  it('is refused when any character of it is changed', () => {
    const token = issuer.issue(grant, 60, NOW)
    const signedLength = token.lastIndexOf('.')
    fc.assert(
      fc.property(fc.nat(signedLength - 1), fc.constantFrom('A', 'z', '0', '.', '!'), (at, replacement) => {
        const changed = token.slice(0, at) + replacement + token.slice(at + 1)
        expect(issuer.verify(changed, NOW).ok).toBe(changed === token)
      }),
    )
  })

  it('never throws on any text', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(issuer.verify(`v1.${text}`, NOW).ok || issuer.verify(text, NOW).ok).toBe(false)
      }),
    )
  })

  it('needs a secret of 32 bytes', () => {
    expect(() => createTokenIssuer(randomBytes(31))).toThrow(
      expect.objectContaining({ code: 'TOKEN_INVALID' }),
    )
  })
})

describe('credentials', () => {
  it('are read from a bearer and from the password of basic credentials', () => {
    expect(readBearer('Bearer abc')).toBe('abc')
    expect(readBearer(`Basic ${Buffer.from('user:pass:word').toString('base64')}`)).toBe('pass:word')
    for (const none of [
      undefined,
      '',
      'Bearer',
      'Digest x',
      `Basic ${Buffer.from('user').toString('base64')}`,
    ]) {
      expect(readBearer(none)).toBeUndefined()
    }
  })
})

describe('a registry', () => {
  let world: RegistryWorld
  let url: string
  const events: RegistryEvent[] = []
  const records: RegistryLogRecord[] = []
  const layer = Buffer.from('the layer')
  let artifact: Awaited<ReturnType<typeof pushArtifact>>
  let other: typeof artifact

  beforeAll(async () => {
    world = await createRegistryWorld()
    const server = await world.start({
      onEvent: (event) => events.push(event),
      log: (record) => records.push(record),
    })
    url = server.url
    const client = world.client(server, world.token([{ name: 'a/b', actions: both }]))
    const push = (text: string, tag: string) =>
      pushArtifact({
        client,
        repository: 'a/b',
        artifactType: 'x/y',
        layers: [{ mediaType: 'x/z', bytes: Buffer.from(text) }],
        tag,
      })
    artifact = await push('the layer', 'v1')
    other = await push('another layer', 'v2')
  })
  afterAll(() => world.close())

  it.each([
    '/v2/',
    '/v2/a/b/tags/list',
    '/v2/a/b/manifests/v1',
    `/v2/a/b/blobs/${sha256Digest(layer)}`,
    '/v2/token',
  ])('refuses %s to nobody in particular and says where to get a token', async (path) => {
    const answer = await rawRequest(url, 'GET', path)
    expect(answer).toMatchObject({ status: 401, code: 'UNAUTHORIZED' })
    expect(answer.headers['www-authenticate']).toContain(`Bearer realm="${url}/v2/token"`)
  })

  it.each([
    ['POST', '/v2/a/b/blobs/uploads/'],
    ['PUT', '/v2/a/b/manifests/v1'],
    ['PATCH', `/v2/a/b/blobs/uploads/${'0'.repeat(32)}`],
  ])('refuses %s %s with a token that may only pull', async (method, path) => {
    const bearer = world.token([{ name: 'a/b', actions: ['pull'] }])
    expect(await rawRequest(url, method, path, { bearer })).toMatchObject({ status: 403, code: 'DENIED' })
  })

  it('refuses another repository, an expired token and a forged one', async () => {
    const elsewhere = world.token([{ name: 'a/c', actions: both }])
    expect(await rawRequest(url, 'GET', '/v2/a/b/manifests/v1', { bearer: elsewhere })).toMatchObject({
      status: 403,
    })
    const expired = world.token([{ name: 'a/b', actions: both }], 0)
    expect(await rawRequest(url, 'GET', '/v2/a/b/manifests/v1', { bearer: expired })).toMatchObject({
      status: 401,
    })
    const forged = `${world.token([{ name: 'a/b', actions: both }]).slice(0, -6)}AAAAAA`
    expect(await rawRequest(url, 'GET', '/v2/', { bearer: forged })).toMatchObject({ status: 401 })
  })

  it('gives a token for everything below a name that, and nothing that only begins like it', async () => {
    const token = world.token([{ name: 'a/*', actions: ['pull'] }])
    const tags = async (repository: string) =>
      (await rawRequest(url, 'GET', `/v2/${repository}/tags/list`, { bearer: token })).status
    expect([await tags('a/b'), await tags('ab/c'), await tags('a'), await tags('b/a/c')]).toEqual([
      200, 403, 403, 403,
    ])
    const push = await rawRequest(url, 'POST', '/v2/a/b/blobs/uploads/', { bearer: token })
    expect(push.status).toBe(403)
  })

  it('gives a token bound to digests exactly those, by tag or by digest', async () => {
    const digests = [artifact.digest, sha256Digest(layer)]
    const bearer = world.token([{ name: 'a/b', actions: ['pull'], digests }])
    const get = (path: string) => rawRequest(url, 'GET', `/v2/a/b/${path}`, { bearer })
    expect(await get(`manifests/${artifact.digest}`)).toMatchObject({ status: 200 })
    expect(await get('manifests/v1')).toMatchObject({ status: 200 })
    expect(await get(`blobs/${sha256Digest(layer)}`)).toMatchObject({ status: 200 })
    for (const path of [`manifests/${other.digest}`, 'manifests/v2', 'manifests/none', 'tags/list']) {
      expect(await get(path)).toMatchObject({ status: 403 })
    }
    expect(await get(`blobs/${sha256Digest(Buffer.from('another layer'))}`)).toMatchObject({ status: 403 })
  })

  it('serves tools that know only basic credentials or the token flow', async () => {
    const password = world.token([{ name: 'a/b', actions: ['pull'] }])
    const basic = { authorization: `Basic ${Buffer.from(`tenon:${password}`).toString('base64')}` }
    expect(await rawRequest(url, 'GET', '/v2/a/b/tags/list', { headers: basic })).toMatchObject({
      status: 200,
    })
    const traded = await rawRequest(url, 'GET', '/v2/token?service=tenon&scope=repository:a/b:pull', {
      headers: basic,
    })
    const { token } = JSON.parse(traded.body.toString()) as { token: string }
    expect(await rawRequest(url, 'GET', '/v2/a/b/tags/list', { bearer: token })).toMatchObject({
      status: 200,
    })
  })

  it('tells what was refused and never logs a credential', async () => {
    const bearer = world.token([{ name: 'a/c', actions: ['pull'] }])
    await rawRequest(url, 'GET', '/v2/a/b/manifests/v1?x=1', { bearer })
    expect(events).toContainEqual(
      expect.objectContaining({
        type: 'access.refused',
        repository: 'a/b',
        action: 'pull',
        status: 403,
        reference: 'v1',
      }),
    )
    const said = JSON.stringify([events, records])
    expect(records.length).toBeGreaterThan(5)
    expect(said).not.toContain(bearer)
    expect(said).not.toContain('v1.ey')
  })
})
