import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener, Server } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { ProxyAgent } from 'undici'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  anonymous,
  basicCredentials,
  ecrCredentials,
  mediaTypes,
  pushArtifact,
  sha256Digest,
} from '../index.ts'
import { createRegistryWorld } from '../testing/registry-world.ts'
import type { RegistryWorld } from '../testing/registry-world.ts'
import { parseChallenges } from './challenge.ts'

describe('a challenge', () => {
  it('is read with quotes and without, several at once, and never throws', () => {
    expect(
      parseChallenges('Bearer realm="https://a/t?x=1,2",service=s,scope="a b" , Basic realm="\\"r\\""'),
    ).toEqual([
      { scheme: 'bearer', parameters: { realm: 'https://a/t?x=1,2', service: 's', scope: 'a b' } },
      { scheme: 'basic', parameters: { realm: '"r"' } },
    ])
    for (const text of [undefined, '', '=', '"', 'Bearer realm="', ',,,']) parseChallenges(text)
  })
})

describe('getting into a registry', () => {
  let world: RegistryWorld
  const servers: Server[] = []

  beforeEach(async () => {
    world = await createRegistryWorld()
  })
  afterEach(async () => {
    await world.close()
    await Promise.all(
      servers.splice(0).map(
        (server) =>
          new Promise((resolve) => {
            server.close(resolve)
            server.closeAllConnections()
          }),
      ),
    )
  })

  const listen = async (listener: RequestListener): Promise<string> => {
    const server = createServer(listener)
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }
  const content = Buffer.from('content')
  const digest = sha256Digest(content)
  const read = async (url: string, credentials = anonymous, more = {}) => {
    const client = world.client({ url }, undefined, { credentials, ...more })
    return (await buffer((await client.getBlob('a/b', digest)).stream)).toString()
  }
  const basic = basicCredentials('me', 'secret')
  const isBasic = (req: IncomingMessage) =>
    req.headers.authorization === `Basic ${Buffer.from('me:secret').toString('base64')}`

  it('works without credentials where none are asked for', async () => {
    const url = await listen((req, res) => res.end(req.headers.authorization === undefined ? content : 'no'))
    expect(await read(url)).toBe('content')
  })

  it('sends name and password only when they are asked for, and then at once', async () => {
    const seen: boolean[] = []
    const url = await listen((req, res) => {
      seen.push(req.headers.authorization !== undefined)
      if (isBasic(req)) res.end(content)
      else res.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
    })
    const client = world.client({ url }, undefined, { credentials: basic })
    for (let times = 0; times < 2; times++) {
      expect((await buffer((await client.getBlob('a/b', digest)).stream)).toString()).toBe('content')
    }
    expect(seen).toEqual([false, true, true])
    await expect(read(url, basicCredentials('me', 'wrong'))).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    await expect(read(url)).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  })

  /** Gives tokens that name their scope, and takes them until they are revoked. */
  const tokenRegistry = async (isOpen: (req: IncomingMessage) => boolean) => {
    const asked: URLSearchParams[] = []
    let generation = 1
    const url = await listen((req, res) => {
      const { pathname, searchParams } = new URL(req.url ?? '', 'http://x')
      if (pathname === '/token') {
        asked.push(searchParams)
        if (!isOpen(req)) return res.writeHead(401).end()
        return res.end(JSON.stringify({ access_token: `t${generation}`, expires_in: 300 }))
      }
      if (req.headers.authorization === `Bearer t${generation}`) {
        return req.method === 'POST' ? res.writeHead(201).end() : res.end(content)
      }
      const challenge = `Bearer realm="${url}/token",service="reg",scope="repository:a/b:pull"`
      return res.writeHead(401, { 'www-authenticate': challenge }).end()
    })
    return { url, asked, revoke: () => generation++ }
  }

  it('trades name and password for a token, keeps it, and gets another when it is refused', async () => {
    const { url, asked, revoke } = await tokenRegistry(isBasic)
    const client = world.client({ url }, undefined, { credentials: basic })
    const get = async () => (await buffer((await client.getBlob('a/b', digest)).stream)).toString()
    expect(await get()).toBe('content')
    expect(await get()).toBe('content')
    expect(asked.map(String)).toEqual(['service=reg&scope=repository%3Aa%2Fb%3Apull'])
    revoke()
    expect(await get()).toBe('content')
    expect(asked).toHaveLength(2)
    await expect(read(url, basicCredentials('me', 'wrong'))).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  })

  it('gets a token without credentials too, and one for both repositories to mount', async () => {
    const { url, asked } = await tokenRegistry(() => true)
    expect(await read(url)).toBe('content')
    const client = world.client({ url }, undefined, { credentials: anonymous })
    expect(await client.mountBlob('a/b', digest, 'c/d')).toBe(true)
    expect(asked.at(-1)?.getAll('scope')).toEqual(['repository:a/b:pull', 'repository:c/d:pull'])
  })

  it('speaks the token flow with our own registry', async () => {
    const registry = await world.start()
    const password = world.token([{ name: 'a/b', actions: ['pull', 'push'] }])
    const client = world.client(registry, undefined, { credentials: basicCredentials('tenon', password) })
    const pushed = await pushArtifact({ client, repository: 'a/b', artifactType: 'x/y', layers: [] })
    expect((await client.getManifest('a/b', pushed.digest)).digest).toBe(pushed.digest)
  })

  it.each(['http://example.com/token', 'ftp://127.0.0.1/token', 'https://user@example.com/'])(
    'takes no credentials to %j',
    async (realm) => {
      const url = await listen((_req, res) =>
        res.writeHead(401, { 'www-authenticate': `Bearer realm="${realm}"` }).end(),
      )
      await expect(read(url, basic)).rejects.toMatchObject({ code: 'REDIRECT_REFUSED' })
    },
  )

  it('asks a cloud for its token once for half of its life', async () => {
    let now = 0
    let calls = 0
    const source = {
      authorizationToken: async () => {
        calls++
        return { authorizationToken: Buffer.from(`AWS:p${calls}`).toString('base64'), expiresAt: now + 1000 }
      },
    }
    const credentials = ecrCredentials(source, () => now)
    expect(await Promise.all([credentials(), credentials()])).toEqual([
      { username: 'AWS', password: 'p1' },
      { username: 'AWS', password: 'p1' },
    ])
    now = 499
    expect(await credentials()).toEqual({ username: 'AWS', password: 'p1' })
    now = 500
    expect(await credentials()).toEqual({ username: 'AWS', password: 'p2' })
  })

  it('goes through a proxy', async () => {
    const tunnels: string[] = []
    const proxyUrl = await listen((_req, res) => res.writeHead(405).end())
    servers.at(-1)?.on('connect', (req, socket) => {
      tunnels.push(req.url ?? '')
      const [host, port] = (req.url ?? '').split(':')
      const upstream = connect(Number(port), host, () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n')
        upstream.pipe(socket)
        socket.pipe(upstream)
      })
      upstream.on('error', () => socket.destroy())
      socket.on('error', () => upstream.destroy())
      socket.on('close', () => upstream.destroy())
    })
    const registry = await world.start()
    const dispatcher = new ProxyAgent(proxyUrl)
    const client = world.client(registry, world.token([{ name: 'a', actions: ['pull', 'push'] }]), {
      dispatcher,
    })
    const pushed = await pushArtifact({ client, repository: 'a', artifactType: 'x/y', layers: [] })
    expect((await client.headManifest('a', pushed.digest))?.digest).toBe(pushed.digest)
    expect(new Set(tunnels)).toEqual(new Set([new URL(registry.url).host]))
    await dispatcher.destroy()
  })

  it('waits as long as the registry asks, and not at all for one that asks for too long', async () => {
    let calls = 0
    const at: number[] = []
    const busy = await listen((_req, res) => {
      at.push(performance.now())
      if (++calls === 1) res.writeHead(429, { 'retry-after': '1' }).end()
      else res.end(content)
    })
    expect(await read(busy)).toBe('content')
    expect((at[1] ?? 0) - (at[0] ?? 0)).toBeGreaterThan(950)
    let tries = 0
    const closed = await listen((_req, res) => {
      tries++
      res.writeHead(503, { 'retry-after': '3600' }).end()
    })
    await expect(read(closed)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(tries).toBe(1)
  })

  it('follows reads to other hosts only where that is allowed, and without credentials', async () => {
    const seen: (string | undefined)[] = []
    const elsewhere = await listen((req, res) => {
      seen.push(req.headers.authorization)
      res.end(content)
    })
    const url = await listen((_req, res) => res.writeHead(307, { location: `${elsewhere}/x` }).end())
    await expect(read(url, async () => ({ bearer: 'b' }))).rejects.toMatchObject({ code: 'REDIRECT_REFUSED' })
    const followRedirect = ({ origin }: URL) => origin === elsewhere
    expect(await read(url, async () => ({ bearer: 'b' }), { followRedirect })).toBe('content')
    expect(seen).toEqual([undefined])
  })

  it('finds tags over many pages, and referrers with the API and without', async () => {
    const registry = await world.start({ authorize: async () => ({ ok: true }) })
    const withoutApi = await listen((req, res) => {
      if ((req.url ?? '').includes('/referrers/')) return res.writeHead(404).end()
      const { port } = new URL(registry.url)
      const through = connect(Number(port), '127.0.0.1')
      forward(req, res, through)
      return undefined
    })
    for (const url of [registry.url, withoutApi]) {
      const repository = url === registry.url ? 'with' : 'without'
      const client = world.client({ url }, 'x')
      const push = (subject?: Awaited<ReturnType<typeof pushArtifact>>, tag?: string) =>
        pushArtifact({
          client,
          repository,
          artifactType: subject === undefined ? 'x/app' : 'x/signature',
          layers: [],
          ...(subject === undefined ? {} : { subject }),
          ...(tag === undefined ? {} : { tag }),
        })
      const subject = await push(undefined, 'v1')
      const signature = await push(subject)
      const found = await client.listReferrers(repository, subject.digest, { artifactType: 'x/signature' })
      expect(found).toMatchObject([{ digest: signature.digest, mediaType: mediaTypes.manifest }])
      expect(await client.listReferrers(repository, subject.digest, { artifactType: 'x/other' })).toEqual([])
      expect(await client.listReferrers(repository, signature.digest)).toEqual([])
      expect(await client.listTags(repository)).toContain('v1')
    }
    const tags = await world.client(registry, 'x').listTags('without')
    expect(tags.filter((tag) => tag.startsWith('sha256-'))).toHaveLength(1)
    const paged = await listen((req, res) => {
      const last = Number(new URL(req.url ?? '', 'http://x').searchParams.get('last') ?? 0)
      if (last < 3) res.setHeader('link', `</v2/a/tags/list?last=${last + 1}>; rel="next"`)
      res.end(JSON.stringify({ name: 'a', tags: [`t${last}`] }))
    })
    expect(await world.client({ url: paged }, 'x').listTags('a')).toEqual(['t0', 't1', 't2', 't3'])
  })
})

/** Passes one request on and leaves out `OCI-Subject`, as a registry from before 1.1 answers. */
const forward = (
  req: IncomingMessage,
  res: Parameters<RequestListener>[1],
  through: ReturnType<typeof connect>,
): void => {
  const headers = Object.entries({ ...req.headers, connection: 'close' })
    .map(([name, value]) => `${name}: ${String(value)}`)
    .join('\r\n')
  through.write(`${req.method} ${req.url} HTTP/1.1\r\n${headers}\r\n\r\n`)
  req.pipe(through, { end: false })
  const chunks: Buffer[] = []
  through.on('data', (chunk: Buffer) => chunks.push(chunk))
  through.on('end', () => {
    const answer = Buffer.concat(chunks)
    const at = answer.indexOf('\r\n\r\n')
    const [status = '', ...lines] = answer.subarray(0, at).toString().split('\r\n')
    const kept = lines.map((line) => /^([^:]+): (.*)$/.exec(line)?.slice(1) ?? [])
    for (const [name = 'x', value = ''] of kept) {
      if (!['oci-subject', 'connection', 'transfer-encoding'].includes(name.toLowerCase()))
        res.setHeader(name, value)
    }
    res.statusCode = Number(status.split(' ')[1])
    res.end(answer.subarray(at + 4))
  })
}
