import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { packTar } from 'modern-tar'
import type { TarEntry } from 'modern-tar'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  copyArtifact,
  mediaTypes,
  pullArtifactLayers,
  pushArtifact,
  sha256Digest,
  unpackTarGz,
} from './index.ts'
import type { Digest } from './index.ts'
import { allFiles, createRegistryWorld, waitFor } from './testing/registry-world.ts'
import type { RegistryWorld } from './testing/registry-world.ts'

const layer = Buffer.alloc(3 * 1024 * 1024, 'layer')
const layerDigest = sha256Digest(layer)
const config = Buffer.from('{}')
const describeBlob = (bytes: Buffer) => ({
  mediaType: 'application/octet-stream',
  digest: sha256Digest(bytes),
  size: bytes.byteLength,
})
const manifest = Buffer.from(
  JSON.stringify({
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    config: describeBlob(config),
    layers: [describeBlob(layer)],
  }),
)
const digest = sha256Digest(manifest)

describe('a copy from a registry that lies', () => {
  let world: RegistryWorld
  let target: Awaited<ReturnType<RegistryWorld['start']>>
  let server: Server | undefined

  beforeEach(async () => {
    world = await createRegistryWorld()
    target = await world.start({ authorize: async () => ({ ok: true }) })
  })
  afterEach(async () => {
    await world.close()
    await new Promise((resolve) => {
      if (server === undefined) return resolve(undefined)
      server.close(resolve)
      server.closeAllConnections()
    })
    server = undefined
  })

  type Answer = (req: IncomingMessage, res: ServerResponse) => unknown

  /** Honest about everything but the layer, or the manifest. */
  const copyFrom = async (lie: { layer?: Answer; manifest?: Answer }) => {
    server = createServer((req, res) => {
      if (req.url?.includes('/manifests/')) {
        if (lie.manifest !== undefined) return lie.manifest(req, res)
        return res.writeHead(200, { 'content-type': mediaTypes.manifest }).end(manifest)
      }
      if (req.url?.endsWith(layerDigest) && lie.layer !== undefined) return lie.layer(req, res)
      return res.end(req.url?.endsWith(layerDigest) ? layer : config)
    })
    await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    return copyArtifact({
      from: { client: world.client({ url }, 'x'), repository: 'a' },
      to: { client: world.client(target, 'x'), repository: 'a' },
      digest,
    })
  }

  /** The honest small blob may have arrived before; nothing of the lie, no manifest, nothing unfinished. */
  const expectClean = async (): Promise<void> => {
    const harmless = sha256Digest(config).slice(7)
    const left = async () => (await allFiles(target.dir)).filter((file) => !file.endsWith(harmless))
    await waitFor('the target to be clean', async () => (await left()).length === 0)
  }

  const wrong = Buffer.alloc(layer.byteLength, 'wrong')
  const head = (res: ServerResponse, length: number) => res.writeHead(200, { 'content-length': length })
  const lies: [string, string, Answer][] = [
    ['sends other content of the same size', 'DIGEST_MISMATCH', (_req, res) => res.end(wrong)],
    [
      'sends less than it announced, every time',
      'UNAVAILABLE',
      (_req, res) => head(res, layer.byteLength).write('x', () => res.destroy()),
    ],
    ['announces less than the manifest says', 'SIZE_MISMATCH', (_req, res) => head(res, 5).end('layer')],
    [
      'announces more than the manifest says',
      'SIZE_MISMATCH',
      (_req, res) => head(res, layer.byteLength + 1).write(layer),
    ],
    [
      'sends more without announcing it',
      'SIZE_MISMATCH',
      (_req, res) => {
        res.write(layer)
        res.end(layer)
      },
    ],
    [
      'points elsewhere',
      'REDIRECT_REFUSED',
      (_req, res) => res.writeHead(307, { location: 'http://169.254.169.254/x' }).end(),
    ],
    ['does not have what its manifest names', 'NOT_FOUND', (_req, res) => res.writeHead(404).end()],
    [
      'sends another part than asked for',
      'RESPONSE_INVALID',
      (req, res) => {
        if (req.headers.range !== undefined)
          return res.writeHead(206, { 'content-range': `bytes 0-4/${layer.byteLength}` }).end('layer')
        return head(res, layer.byteLength).write(layer.subarray(0, 1000), () => res.destroy())
      },
    ],
  ]
  it.each(lies)('that %s fails with %s and leaves nothing', async (_what, code, answer) => {
    await expect(copyFrom({ layer: answer })).rejects.toMatchObject({ code })
    await expectClean()
  })

  const asManifest =
    (bytes: Buffer): Answer =>
    (_req, res) =>
      res.writeHead(200, { 'content-type': mediaTypes.manifest }).end(bytes)
  it.each([
    ['another manifest', 'DIGEST_MISMATCH', Buffer.from(manifest.toString().replace('layers', 'Layers'))],
    ['a manifest of more than 4 MiB', 'TOO_LARGE', Buffer.alloc(4 * 1024 * 1024 + 1, 32)],
  ])('that sends %s fails with %s and leaves nothing', async (_what, code, bytes) => {
    await expect(copyFrom({ manifest: asManifest(bytes) })).rejects.toMatchObject({ code })
    await expectClean()
  })
})

describe('an artifact with a hostile layer', () => {
  let world: RegistryWorld

  beforeEach(async () => {
    world = await createRegistryWorld()
  })
  afterEach(() => world.close())

  const file = (name: string, body = 'x'): TarEntry => ({
    header: { name, size: body.length, type: 'file' },
    body,
  })
  const link = (type: 'symlink' | 'link', linkname: string): TarEntry => ({
    header: { name: 'link', size: 0, type, linkname },
  })
  const archive = async (...entries: TarEntry[]) => gzipSync(await packTar(entries))

  it.each([
    ['a name that leads out', () => archive(file('good'), file('../../evil'))],
    ['an absolute name', () => archive(file('good'), file('/etc/evil'))],
    ['a symbolic link', () => archive(link('symlink', '/etc'), file('link/evil'))],
    ['a hard link', () => archive(file('good'), link('link', '/etc/passwd'))],
    ['a bomb', async () => gzipSync(Buffer.alloc(64 * 1024 * 1024))],
  ])('with %s is refused when it is unpacked; nothing is written', async (_what, make) => {
    const registry = await world.start({ authorize: async () => ({ ok: true }) })
    const client = world.client(registry, 'x')
    const layers = [{ mediaType: mediaTypes.layerTarGz, bytes: await make() }]
    const pushed = await pushArtifact({ client, repository: 'a', artifactType: 'x/y', layers })
    const pulled = await pullArtifactLayers({ client, repository: 'a', digest: pushed.digest })
    const folder = join(world.dir, 'unpacked')
    await mkdir(folder)
    const stream = await pulled.layers[0]?.open()
    if (stream === undefined) throw new Error('no layer')
    const unpacking = unpackTarGz(stream, join(folder, 'x'), { maxEntries: 100, maxBytes: 1024 * 1024 })
    await expect(unpacking).rejects.toMatchObject({ code: 'ARCHIVE_REFUSED' })
    expect(await readdir(folder)).toEqual([])
  })
})

describe('a client that lies to our registry', () => {
  let world: RegistryWorld

  beforeEach(async () => {
    world = await createRegistryWorld()
  })
  afterEach(() => world.close())

  /** Writes raw bytes and hangs up. */
  const say = (port: number, text: string) =>
    new Promise<void>((resolve) => {
      const socket = connect(port, '127.0.0.1')
      socket.resume()
      socket.on('error', () => resolve())
      socket.on('close', () => resolve())
      socket.write(text, () => socket.end())
    })

  it.each([
    ['a blob', (at: Digest) => `POST /v2/a/blobs/uploads/?digest=${at}`],
    ['a manifest', () => 'PUT /v2/a/manifests/v1'],
  ])('about the length of %s gets nothing stored', async (_what, request) => {
    const registry = await world.start({ authorize: async () => ({ ok: true }) })
    const type = `Content-Type: ${mediaTypes.index}`
    const body = '{"schemaVersion":2,"manifests":[]}'
    const line = request(sha256Digest(Buffer.from(body)))
    await say(registry.port, `${line} HTTP/1.1\r\nHost: x\r\n${type}\r\nContent-Length: 5000\r\n\r\n${body}`)
    await waitFor('the registry to be clean', async () => (await allFiles(registry.dir)).length === 0)
    const client = world.client(registry, 'x')
    expect(await client.headManifest('a', 'v1')).toBeUndefined()
    expect(await client.hasBlob('a', sha256Digest(Buffer.from(body)))).toBe(false)
  })
})
