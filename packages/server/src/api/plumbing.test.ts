import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { coded, request, routeNames, routeOf } from '../testing/raw-api.ts'
import { startRelay, type Relay } from '../testing/relay.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { createTestDatabase, type TestDatabase } from '../postgres/test-database.ts'
import { until } from '../testing/until.ts'

describe('what a server says about itself', () => {
  let tenant: TestTenant
  beforeAll(async () => {
    tenant = await startTestTenant()
  })
  afterAll(() => tenant.stop())
  afterEach(() => tenant.assertSound())

  it('is alive and ready', async () => {
    expect((await request(`${tenant.url}/healthz`)).status).toBe(200)
    expect((await request(`${tenant.url}/readyz`)).status).toBe(200)
  })

  it('describes every route of the protocol in OpenAPI 3.1', async () => {
    const api = JSON.parse((await request(`${tenant.url}/openapi.json`)).text) as {
      openapi: string
      paths: Record<string, Record<string, { operationId: string; security: object[]; summary: string }>>
    }
    expect(api.openapi).toBe('3.1.0')
    const described = Object.entries(api.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId, security, summary }]) => ({
        operationId,
        security,
        summary,
        at: `${method.toUpperCase()} ${path}`,
      })),
    )
    const expected = routeNames.map((name) => ({
      operationId: name,
      security: [{ token: [] }],
      summary: routeOf(name).summary,
      at: `${routeOf(name).method} ${routeOf(name).path.replaceAll(/:(\w+)/g, '{$1}')}`,
    }))
    const order = (a: { operationId: string }, b: { operationId: string }) =>
      a.operationId < b.operationId ? -1 : 1
    expect(described.toSorted(order)).toEqual(expected.toSorted(order))
  })

  it('names only schemas that the description holds', async () => {
    const { text } = await request(`${tenant.url}/openapi.json`)
    const api = JSON.parse(text) as { components?: { schemas?: Record<string, unknown> } }
    for (const [, name] of text.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g))
      expect(Object.keys(api.components?.schemas ?? {})).toContain(name)
  })

  it('has a page to read it that loads nothing from elsewhere and needs no script', async () => {
    const page = await request(`${tenant.url}/docs/`)
    expect(page.headers.get('content-type')).toContain('text/html')
    expect(page.headers.get('content-security-policy')).toContain("default-src 'self'")
    expect(page.text).not.toContain('<script')
    expect(page.text).not.toMatch(/(?:src|href)="(?:https?:)?\/\//)
    for (const name of routeNames) expect(page.text).toContain(`id="${name}"`)
    for (const [, path] of page.text.matchAll(/(?:src|href)="(\/[^"]+)"/g))
      expect((await request(`${tenant.url}${path}`)).status).toBe(200)
  })

  it('leads from /docs to the page', async () => {
    const answer = await fetch(`${tenant.url}/docs`)
    expect([answer.status, new URL(answer.url).pathname]).toEqual([200, '/docs/'])
  })

  it('marks every answer with a request id and headers that keep a browser careful', async () => {
    const answer = await request(`${tenant.url}/healthz`)
    expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
    expect(answer.headers.get('x-frame-options')).toBe('SAMEORIGIN')
  })
})

describe('a caller who asks too often', () => {
  let tenant: TestTenant
  beforeAll(async () => {
    tenant = await startTestTenant({ rateLimitPerMinute: 20 })
  })
  afterAll(() => tenant.stop())

  it('is told so with a code, with and without a token, and health is still answered', async () => {
    const answers = []
    for (let i = 0; i < 25; i++) answers.push(await request(`${tenant.url}/api/v1/server`))
    expect(coded(answers.at(0)!)).toEqual([401, 'unauthorized'])
    expect(coded(answers.at(-1)!)).toEqual([429, 'rate_limited'])
    await tenant.assertSound()
  })

  it('is told so by the enrolment too', async () => {
    const post = () =>
      request(`${tenant.url}/agent/v1/enrol`, {
        method: 'POST',
        body: '{}',
        headers: { 'content-type': 'application/json' },
      })
    const answers = await Promise.all(Array.from({ length: 70 }, post))
    expect(answers.map((a) => coded(a)[1])).toContain('rate_limited')
    await tenant.assertSound()
  })
})

describe('a server whose database goes away', () => {
  let database: TestDatabase
  let relay: Relay
  let tenant: TestTenant
  beforeAll(async () => {
    database = await createTestDatabase()
    relay = await startRelay(database.url)
    tenant = await startTestTenant({ databaseUrl: relay.url, databaseSilenceSeconds: 2 })
  })
  afterAll(async () => {
    await tenant.stop()
    await relay.close()
    await database.drop()
  })

  it.each(['cut', 'stall'] as const)(
    'says 503 after a %s, and goes on when it is back',
    async (how) => {
      relay[how]()
      await until('not ready', async () => (await request(`${tenant.url}/readyz`)).status === 503)
      expect((await request(`${tenant.url}/healthz`)).status).toBe(200)
      const answers = await Promise.all(
        Array.from({ length: how === 'cut' ? 30 : 1 }, async () => {
          const headers = { authorization: `Bearer ${tenant.ownerToken}` }
          return request(`${tenant.url}/api/v1/apps`, { headers })
        }),
      )
      expect([...new Set(answers.map((a) => coded(a).join(' ')))]).toEqual(['503 unavailable'])
      expect(answers[0]!.headers.get('retry-after')).toBe('2')
      relay.restore()
      await until('ready', async () => (await request(`${tenant.url}/readyz`)).status === 200)
      expect((await tenant.client.call('apps.list', { query: {} })).items).toEqual([])
      await tenant.assertSound()
    },
    30_000,
  )
})
