import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { mediaTypes, sha256Digest } from '../index.ts'
import { createRegistryWorld } from '../testing/registry-world.ts'
import type { RegistryWorld } from '../testing/registry-world.ts'
import { parseRetryAfter, retryDelay } from './retry.ts'

type Listener = (req: IncomingMessage, res: ServerResponse) => void

describe('a client of a registry that misbehaves', () => {
  let world: RegistryWorld
  const closing: (() => Promise<void>)[] = []

  beforeEach(async () => {
    world = await createRegistryWorld()
  })
  afterEach(async () => {
    await world.close()
    await Promise.all(closing.splice(0).map((close) => close()))
  })

  const misbehaving = async (listener: Listener): Promise<{ url: string }> => {
    const server = createServer(listener)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    closing.push(
      () =>
        new Promise((resolve) => {
          server.close(() => resolve())
          server.closeAllConnections()
        }),
    )
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  }

  const clientOf = async (listener: Listener) => world.client(await misbehaving(listener), 'secret')

  const blob = Buffer.from('the right content')
  const digest = sha256Digest(blob)
  const get = async (listener: Listener, size?: number) => {
    const client = await clientOf(listener)
    const { stream } = await client.getBlob('a/b', digest, size === undefined ? {} : { size })
    return buffer(stream)
  }

  it('refuses a blob that is not its digest', async () => {
    const getting = get((_req, res) => res.end('the wrong content'))
    await expect(getting).rejects.toMatchObject({ code: 'DIGEST_MISMATCH' })
  })

  it('refuses a blob of another size before reading it', async () => {
    const getting = get(
      (_req, res) => res.writeHead(200, { 'content-length': 10_000_000 }).write('x'),
      blob.byteLength,
    )
    await expect(getting).rejects.toMatchObject({ code: 'SIZE_MISMATCH' })
  })

  it('refuses a blob without an end', async () => {
    const endless: Listener = (_req, res) => Readable.from(repeat(Buffer.alloc(65_536))).pipe(res)
    await expect(get(endless, blob.byteLength)).rejects.toMatchObject({ code: 'SIZE_MISMATCH' })
    await expect(get(endless)).rejects.toMatchObject({ code: 'RESPONSE_INVALID' })
  })

  it('goes on without ranges by passing over what it has', async () => {
    let calls = 0
    const cutOnce: Listener = (_req, res) => {
      res.writeHead(200, { 'content-length': blob.byteLength })
      if (++calls === 1) res.write(blob.subarray(0, 6), () => res.destroy())
      else res.end(blob)
    }
    expect((await get(cutOnce)).equals(blob)).toBe(true)
  })

  it('refuses another part than it asked for', async () => {
    const other: Listener = (req, res) => {
      if (req.headers.range !== undefined) res.writeHead(206, { 'content-range': 'bytes 0-16/17' }).end(blob)
      else {
        res.writeHead(200, { 'content-length': blob.byteLength })
        res.write(blob.subarray(0, 6), () => res.destroy())
      }
    }
    await expect(get(other)).rejects.toMatchObject({ code: 'RESPONSE_INVALID' })
  })

  it('leaves a blob that has come to a halt as soon as its reader does', async () => {
    let leave = (): void => {}
    const left = new Promise<void>((resolve) => (leave = resolve))
    const client = await clientOf((_req, res) => {
      res.on('close', leave)
      res.writeHead(200, { 'content-length': blob.byteLength }).write(blob.subarray(0, 3))
    })
    const { stream } = await client.getBlob('a/b', digest, {})
    await once(stream, 'readable')
    expect(stream.read()).toEqual(blob.subarray(0, 3))
    stream.destroy()
    await left
  }, 20_000)

  it('gives up on a blob that is cut short every time', async () => {
    const cut: Listener = (_req, res) => {
      res.writeHead(200, { 'content-length': blob.byteLength })
      res.write(blob.subarray(0, 4), () => res.destroy())
    }
    await expect(get(cut)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })

  it('refuses a manifest that is too large, no manifest, or not its digest', async () => {
    const asManifest =
      (body: Buffer | Readable, type: string = mediaTypes.manifest): Listener =>
      (_req, res) => {
        res.writeHead(200, { 'content-type': type })
        if (body instanceof Readable) body.pipe(res)
        else res.end(body)
      }
    const getManifest = async (listener: Listener, reference = 'v1') =>
      (await clientOf(listener)).getManifest('a/b', reference)
    const endless = () => Readable.from(repeat(Buffer.alloc(65_536, 32)))
    await expect(getManifest(asManifest(endless()))).rejects.toMatchObject({ code: 'TOO_LARGE' })
    await expect(getManifest(asManifest(blob, 'text/html'))).rejects.toMatchObject({
      code: 'RESPONSE_INVALID',
    })
    await expect(getManifest(asManifest(Buffer.from('{}')), digest)).rejects.toMatchObject({
      code: 'DIGEST_MISMATCH',
    })
  })

  it('follows redirects on the same host only, and shows its credential to no other', async () => {
    let stolen: string | undefined
    const thief = await misbehaving((req, res) => {
      stolen = req.headers.authorization ?? 'nothing'
      res.end(blob)
    })
    const elsewhere = get((_req, res) => res.writeHead(307, { location: `${thief.url}/x` }).end())
    await expect(elsewhere).rejects.toMatchObject({ code: 'REDIRECT_REFUSED' })
    expect(stolen).toBeUndefined()
    const here: Listener = (req, res) =>
      req.url === '/x' ? res.end(blob) : res.writeHead(307, { location: '/x' }).end()
    expect((await get(here)).equals(blob)).toBe(true)
    const round: Listener = (_req, res) => res.writeHead(307, { location: '/x' }).end()
    await expect(get(round)).rejects.toMatchObject({ code: 'REDIRECT_REFUSED' })
  })

  it('refuses to upload where another host is named', async () => {
    const client = await clientOf((_req, res) =>
      res.writeHead(202, { location: 'http://example.com/upload' }).end(),
    )
    await expect(client.putBlob('a/b', digest, blob.byteLength, blob)).rejects.toMatchObject({
      code: 'REDIRECT_REFUSED',
    })
  })

  it('tries again after 429, 503 and a dropped connection, but not after 403', async () => {
    let calls = 0
    const flaky: Listener = (req, res) => {
      calls++
      if (calls === 1) res.writeHead(429, { 'retry-after': '0' }).end()
      else if (calls === 2) res.writeHead(503).end()
      else if (calls === 3) req.socket.destroy()
      else res.end(blob)
    }
    expect((await get(flaky)).equals(blob)).toBe(true)
    expect(calls).toBe(4)
    let denials = 0
    const denied: Listener = (_req, res) => {
      denials++
      res.writeHead(403).end(JSON.stringify({ errors: [{ code: 'DENIED', message: 'no\u001b[31m' }] }))
    }
    const failure = await get(denied).catch((error: Error) => error)
    expect(failure).toMatchObject({ code: 'DENIED' })
    expect((failure as Error).message).not.toContain('\u001b')
    expect(denials).toBe(1)
  })

  it('gives up after a few tries', async () => {
    let calls = 0
    const down: Listener = (_req, res) => {
      calls++
      res.writeHead(500).end()
    }
    await expect(get(down)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(calls).toBe(4)
  })

  it('asks once more for credentials when they are refused', async () => {
    const { url } = await misbehaving((req, res) =>
      req.headers.authorization === 'Bearer fresh' ? res.end(blob) : res.writeHead(401).end(),
    )
    const bearers = ['stale', 'fresh']
    const client = world.client({ url }, undefined, {
      credentials: async () => ({ bearer: bearers.shift() ?? 'fresh' }),
    })
    expect(await buffer((await client.getBlob('a/b', digest)).stream)).toEqual(blob)
    await expect(get((_req, res) => res.writeHead(401).end())).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  })

  it('sends nothing on when a stream is not what was promised', async () => {
    const registry = await world.start()
    const client = world.client(registry, world.token([{ name: 'a/b', actions: ['pull', 'push'] }]))
    const wrong = client.putBlob(
      'a/b',
      digest,
      blob.byteLength,
      Readable.from([Buffer.from('the wrong content')]),
    )
    await expect(wrong).rejects.toMatchObject({ code: 'DIGEST_MISMATCH' })
    const short = client.putBlob('a/b', digest, blob.byteLength, Readable.from([blob.subarray(0, 5)]))
    await expect(short).rejects.toMatchObject({ code: 'SIZE_MISMATCH' })
    expect(await client.hasBlob('a/b', digest)).toBe(false)
    await client.putBlob('a/b', digest, blob.byteLength, Readable.from([blob]))
    expect(await client.hasBlob('a/b', digest)).toBe(true)
  })
})

describe('the pause before another try', () => {
  const policy = {
    attempts: 10,
    baseDelayMs: 100,
    maxDelayMs: 1000,
    maxRetryAfterMs: 60_000,
    random: () => 1,
  }

  it('doubles up to its bound and is never shorter than the registry wishes', () => {
    expect([1, 2, 3, 9].map((failures) => retryDelay(policy, failures, undefined))).toEqual([
      100, 200, 400, 1000,
    ])
    expect(retryDelay(policy, 1, 700)).toBe(700)
    expect(retryDelay(policy, 1, 60_000)).toBe(60_000)
  })

  it('does not come after too many tries, or when the registry wishes too long a one', () => {
    expect(retryDelay(policy, 10, undefined)).toBeUndefined()
    expect(retryDelay(policy, 1, 60_001)).toBeUndefined()
  })

  it('is read from seconds or a date', () => {
    expect(parseRetryAfter('3', 0)).toBe(3000)
    expect(parseRetryAfter(new Date(5000).toUTCString(), 1000)).toBe(4000)
    expect(parseRetryAfter('soon', 0)).toBeUndefined()
  })
})

function* repeat(chunk: Buffer): Generator<Buffer> {
  for (;;) yield chunk
}
