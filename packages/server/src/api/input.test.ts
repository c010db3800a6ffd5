import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { RouteName } from '@tenon/protocol'
import { ask, coded, request, routeNames, routeOf, unknownId, type Answer } from '../testing/raw-api.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { builtApp, component } from '../testing/world.ts'

let tenant: TestTenant
let token: string

beforeAll(async () => {
  tenant = await startTestTenant()
  token = tenant.ownerToken
  await builtApp(tenant)
})
afterAll(() => tenant.stop())

afterEach(() => tenant.assertSound())

const HOSTILE = [
  "'; drop table job; --",
  '" or 1=1 --',
  '../../../etc/passwd',
  '..\\..\\windows',
  '%2e%2e%2f',
  '\u0000',
  'a\u0000b',
  '\ud800',
  '\u202Ecod',
  '__proto__',
  'constructor',
  '$1',
  '${jndi:ldap://x}',
  '{{7*7}}',
  'x'.repeat(64),
  'x'.repeat(5_000),
]

/** What somebody outside did wrong; anything else would be the server's own failure. */
const REFUSED = [400, 404, 409, 413, 414]

/** Taken, or refused in the right form. */
function soundStatus(answer: Answer): number {
  return answer.status === 200 ? 200 : coded(answer)[0]
}

const withParams = routeNames.filter((name) => routeOf(name).path.includes(':'))
const withQuery = routeNames.filter((name) => Object.keys(routeOf(name).query.shape).length > 0)
const withBody = routeNames.filter((name) => typeof routeOf(name).body === 'object' && routeOf(name).body)

describe('names and ids', () => {
  it.each(withParams)('of %s are only ever values', async (name) => {
    for (const [, param] of routeOf(name).path.matchAll(/:(\w+)/g)) {
      for (const value of HOSTILE) {
        const encoded = value.replace('\ud800', '�')
        expect(REFUSED).toContain(
          coded(
            await ask(tenant.url, name, {
              token,
              params: { [param!]: encoded },
              ...(bodyOf(name) ? { body: bodyOf(name)! } : {}),
            }),
          )[0],
        )
      }
    }
  })

  it.each(withQuery)('in the query of %s are only ever values', async (name) => {
    for (const key of Object.keys(routeOf(name).query.shape)) {
      for (const value of HOSTILE) {
        const query = `?${key}=${encodeURIComponent(value.replace('\ud800', '�'))}`
        const answer = await ask(tenant.url, name, { token, query })
        // A page after a strange id is an honest page; everything else is refused.
        expect([200, ...REFUSED]).toContain(soundStatus(answer))
      }
    }
  })

  it.each(withParams.filter((name) => !['audit.entries'].includes(name)))(
    'that nobody has are not found by %s',
    async (name) => {
      const body = bodyOf(name)
      expect(coded(await ask(tenant.url, name, { token, ...(body ? { body } : {}) }))).toEqual([
        404,
        'not_found',
      ])
    },
  )

  it('cannot break out of a URL', async () => {
    for (const path of ['/api/v1/apps/%zz', '/api/v1/apps/%c0%af', '/%', '/api/v1/../../etc/passwd']) {
      const answer = await request(`${tenant.url}${path}`, { headers: { authorization: `Bearer ${token}` } })
      expect(REFUSED).toContain(coded(answer)[0])
    }
  })
})

/** A body that is right for routes whose other parts are being tested. */
function bodyOf(name: RouteName): string | undefined {
  const bodies: Partial<Record<RouteName, object>> = {
    'builds.create': { components: [{ name: 'db', source: `sha256:${'0'.repeat(64)}` }] },
    'secrets.put': { ciphertext: 'AAAA' },
    'jobs.settle': { outcome: 'failed', reason: 'looked at it' },
    'installs.teardown': {},
    'deploys.create': {},
    'steps.approve': { digest: `sha256:${'0'.repeat(64)}` },
    'steps.reject': { reason: 'not now' },
  }
  return bodies[name] && JSON.stringify(bodies[name])
}

describe('bodies', () => {
  it.each(withBody)('of %s must be JSON of the right form', async (name) => {
    const wrong = [
      'null',
      '[]',
      '7',
      '"text"',
      'true',
      '{"name":{"$gt":""}}',
      '{"__proto__":{"role":"owner"}}',
    ]
    for (const body of wrong) {
      const answer = await ask(tenant.url, name, { token, body })
      expect(answer.status, `${name} took ${body}`).toBe(400)
      expect(REFUSED).toContain(coded(answer)[0])
    }
    for (const body of ['{', '', '{"a":', '\u0000', '{"a":1}}']) {
      expect(coded(await ask(tenant.url, name, { token, body }))).toEqual([400, 'bad_request'])
    }
  })

  it.each(withBody)('of %s are refused in another type', async (name) => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', 'nonsense'])
      expect(coded(await ask(tenant.url, name, { token, type }))).toEqual([415, 'unsupported_media_type'])
  })

  it('of sources must be bytes', async () => {
    expect(
      coded(await ask(tenant.url, 'sources.put', { token, type: 'application/json', body: '{}' })),
    ).toEqual([415, 'unsupported_media_type'])
  })

  it.each(withBody)('of %s past the limit are refused', async (name) => {
    const body = JSON.stringify({ x: 'x'.repeat(2_200_000) })
    expect(coded(await ask(tenant.url, name, { token, body }))).toEqual([413, 'too_large'])
  })

  it('of agents are held to the same rules before anybody enrolled', async () => {
    for (const path of ['/agent/v1/enrol', '/agent/v1/prove']) {
      const post = (body: string, type = 'application/json') =>
        request(`${tenant.url}${path}`, { method: 'POST', body, headers: { 'content-type': type } })
      expect(coded(await post('{'))).toEqual([400, 'bad_request'])
      expect(coded(await post('{}'))).toEqual([400, 'bad_request'])
      expect(coded(await post('{}', 'text/plain'))).toEqual([415, 'unsupported_media_type'])
      expect(coded(await post(`"${'x'.repeat(2_200_000)}"`))).toEqual([413, 'too_large'])
    }
  })
})

describe('text that a database or a signature cannot hold', () => {
  const strange = ['\u0000', '\ud800', 'a\udc00b', '\uffff', '\u202e']
  const app = (change: object) => ({
    app: { name: 'odd', displayName: '', description: '', components: [component('one')], ...change },
  })

  it.each(strange)('such as %j in an app is refused or stored, never a failure', async (text) => {
    const bodies = [
      app({ displayName: text }),
      app({ description: text }),
      app({ components: [{ ...component('one'), type: text }] }),
      app({ components: [{ ...component('one'), config: { [text]: text } }] }),
    ]
    for (const body of bodies) {
      const answer = await ask(tenant.url, 'apps.sync', { token, body: JSON.stringify(body) })
      expect([200, ...REFUSED]).toContain(soundStatus(answer))
    }
  })

  it.each(strange)('such as %j in an install, a token or a settlement', async (text) => {
    const install = (change: object) =>
      JSON.stringify({ name: 'odd', app: 'shop', sandbox: { type: 'none', config: {} }, ...change })
    const answers = [
      await ask(tenant.url, 'installs.create', { token, body: install({ inputs: { [text]: 1 } }) }),
      await ask(tenant.url, 'installs.create', { token, body: install({ inputs: { a: text } }) }),
      await ask(tenant.url, 'installs.create', {
        token,
        body: install({ sandbox: { type: 'none', config: { [text]: text } } }),
      }),
      await ask(tenant.url, 'tokens.create', { token, body: JSON.stringify({ name: text, role: 'viewer' }) }),
      await ask(tenant.url, 'jobs.settle', {
        token,
        params: { id: unknownId() },
        body: JSON.stringify({ outcome: 'failed', reason: `${text}${text}${text}` }),
      }),
    ]
    for (const answer of answers) expect([200, ...REFUSED]).toContain(soundStatus(answer))
  })

  it('JSON that is nested without end', async () => {
    const deep = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`
    const body = `{"name":"deep","app":"shop","sandbox":{"type":"none","config":${deep}}}`
    expect(REFUSED).toContain(coded(await ask(tenant.url, 'installs.create', { token, body }))[0])
  })
})

describe('routes', () => {
  it('that do not exist are said so', async () => {
    for (const path of ['/', '/api', '/api/v1', '/api/v2/apps', '/api/v1/apps/a/b/c', '/agent/v1/nothing'])
      expect(coded(await request(`${tenant.url}${path}`))).toEqual([404, 'unknown_route'])
  })

  it('that exist under another method say which they take', async () => {
    const wrong = [
      ['PUT', '/api/v1/apps', 'GET, POST'],
      ['POST', '/api/v1/server', 'GET'],
      ['DELETE', '/api/v1/installs/one/deploys', 'GET, POST'],
      ['GET', '/agent/v1/enrol', 'POST'],
    ] as const
    for (const [method, path, allow] of wrong) {
      const answer = await request(`${tenant.url}${path}`, { method })
      expect(coded(answer)).toEqual([405, 'method_not_allowed'])
      expect(answer.headers.get('allow')).toBe(allow)
    }
  })
})
