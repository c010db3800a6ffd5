import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text as readText } from 'node:stream/consumers'
import { createServer as createTlsServer } from 'node:tls'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ApiError, createClient, type Client } from './client.ts'

const AT = '2026-11-15T12:00:00.000Z'
const ID = `tok_${'0'.repeat(26)}`
const DIGEST = `sha256:${'a'.repeat(64)}`
const token = {
  id: ID,
  name: 'ci',
  role: 'operator',
  createdAt: AT,
  expiresAt: null,
  revokedAt: null,
  lastUsedAt: null,
}

interface Seen {
  method: string | undefined
  url: string | undefined
  headers: IncomingMessage['headers']
  body: string
}
let server: Server
let seen: Seen[]
let answer: (response: ServerResponse) => void
let url: string
let client: Client

beforeEach(async () => {
  seen = []
  server = createServer((request, response) => {
    void readText(request).then((body) => {
      seen.push({ method: request.method, url: request.url, headers: request.headers, body })
      answer(response)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  client = createClient({ url, token: 'the-secret' })
})
afterEach(async () => {
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
})

function say(status: number, body: unknown): void {
  answer = (response) =>
    response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body))
}

async function failure(call: Promise<unknown>): Promise<ApiError> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(ApiError)
  expect(JSON.stringify(error) + String(error)).not.toContain('the-secret')
  return error as ApiError
}

describe('the typed client', () => {
  it('sends a body as JSON and the token in its header alone, and gives the parsed answer', async () => {
    say(200, { token, secret: 's', newer: 'ignored' })
    const created = await client.call('tokens.create', { body: { name: 'ci', role: 'operator' } })
    // A server of before names no principal.
    expect(created).toEqual({ token: { ...token, principal: null }, secret: 's' })
    expect(seen).toMatchObject([{ method: 'POST', url: '/api/v1/tokens' }])
    expect(seen[0]?.headers).toMatchObject({
      authorization: 'Bearer the-secret',
      'content-type': 'application/json',
    })
    expect(JSON.parse(seen[0]!.body)).toEqual({ name: 'ci', role: 'operator' })
  })

  it('puts parameters into the path and the query, escaped', async () => {
    say(200, { items: [], next: null })
    await client.call('deploys.list', { params: { ref: 'a/b?c#d é' }, query: { limit: 5 } })
    expect(seen[0]?.url).toBe('/api/v1/installs/a%2Fb%3Fc%23d%20%C3%A9/deploys?limit=5')
  })

  it('never lets a parameter lead to another route', async () => {
    say(200, {})
    for (const ref of ['', '.', '..']) {
      expect((await failure(client.call('apps.get', { params: { ref } }))).code).toBe('bad_request')
    }
    expect(seen).toEqual([])
  })

  it('sends bytes as they are, from memory or from a stream', async () => {
    say(200, { digest: DIGEST, layer: DIGEST, size: 3 })
    await client.call('sources.put', { body: new TextEncoder().encode('abc') })
    await client.call('sources.put', { body: new Blob(['de', 'f']).stream() })
    expect(seen.map((s) => s.body)).toEqual(['abc', 'def'])
    expect(seen[1]?.headers['content-type']).toBe('application/octet-stream')
  })

  it('hands a stream over unread', async () => {
    say(200, 'log bytes')
    const response = await client.call('jobs.logs', { params: { id: ID }, query: { follow: '1' } })
    expect(await response.text()).toBe('log bytes')
  })

  it('turns an error of the server into one with its code, remedy and problems', async () => {
    const problems = [{ path: 'name', message: 'is taken' }]
    say(409, {
      error: { code: 'name_taken', message: 'Taken.', remedy: 'Choose.', requestId: 'r', problems },
    })
    const error = await failure(client.call('tokens.create', { body: { name: 'ci', role: 'viewer' } }))
    expect(error).toMatchObject({
      code: 'name_taken',
      status: 409,
      message: 'Taken.',
      remedy: 'Choose.',
      requestId: 'r',
      problems,
    })
  })

  it('says when the answer is not one of ours', async () => {
    for (const [status, body] of [
      [502, '<html>'],
      [500, { error: 'x' }],
      [200, '<html>'],
      [200, { token: 7 }],
    ] as const) {
      say(status, body)
      const error = await failure(client.call('server.info', {}))
      expect(error).toMatchObject({ code: 'bad_answer', status })
    }
  })

  it('says when nobody answers, and when the connection breaks', async () => {
    answer = (response) => response.destroy()
    expect((await failure(client.call('server.info', {}))).code).toBe('unreachable')
    const nobody = createClient({ url: 'http://127.0.0.1:1', token: 'the-secret' })
    const error = await failure(nobody.call('server.info', {}))
    expect(error).toMatchObject({ code: 'unreachable', status: 0 })
    expect(error.cause).toBeDefined()
  })

  it('says of a connection that was cut only that', async () => {
    answer = (response) => response.destroy()
    expect(await failure(client.call('server.info', {}))).toMatchObject({
      message: `${url} closed the connection without an answer`,
    })
  })

  it('does not call a server away whose certificate it does not trust', async () => {
    const reason = Object.assign(new Error('self-signed certificate'), {
      code: 'DEPTH_ZERO_SELF_SIGNED_CERT',
    })
    const untrusting = createClient({
      url: 'https://tenon.example.com',
      token: 'the-secret',
      fetch: () => Promise.reject(new TypeError('fetch failed', { cause: reason })),
    })
    expect(await failure(untrusting.call('server.info', {}))).toMatchObject({
      code: 'unreachable',
      message: 'the certificate of https://tenon.example.com is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT)',
      remedy: expect.stringContaining('NODE_EXTRA_CA_CERTS') as string,
    })
  })

  it('ends when it is told to', async () => {
    const abort = new AbortController()
    answer = () => abort.abort()
    const call = client.call('server.info', {}, { signal: abort.signal })
    await expect(call).rejects.toMatchObject({ name: 'AbortError' })
  })

  it('tells a mix-up of http and https from a server that is away', async () => {
    say(200, {})
    const https = createClient({ url: url.replace('http:', 'https:'), token: 'the-secret' })
    expect(await failure(https.call('server.info', {}))).toMatchObject({
      code: 'unreachable',
      message: `what answers at ${url.replace('http:', 'https:')} does not speak HTTPS`,
      remedy: `If it speaks HTTP, write ${url}.`,
    })
    const tls = createTlsServer({}).listen(0, '127.0.0.1')
    await once(tls, 'listening')
    const at = `127.0.0.1:${(tls.address() as AddressInfo).port}`
    const http = createClient({ url: `http://${at}`, token: 'the-secret' })
    const error = await failure(http.call('server.info', {}))
    await new Promise((resolve) => tls.close(resolve))
    expect(error).toMatchObject({
      code: 'unreachable',
      message: `http://${at} closed the connection without an answer`,
      remedy: `Check that the server runs, and try again; if it speaks HTTPS, write https://${at}.`,
    })
    say(400, 'The plain HTTP request was sent to HTTPS port')
    expect(await failure(client.call('server.info', {}))).toMatchObject({
      message: 'this address speaks HTTPS, not HTTP',
    })
  })
})
