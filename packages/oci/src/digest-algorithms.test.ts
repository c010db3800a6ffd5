import { readdir, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  collectGarbage,
  copyArtifact,
  createClosures,
  createFileStorage,
  digestOf,
  exportLayout,
  importLayout,
  mediaTypes,
  sha256Digest,
} from './index.ts'
import type { Descriptor, Digest, DigestAlgorithm, RegistryClient, RegistryServer } from './index.ts'
import { rawRequest } from './testing/raw-http.ts'
import { allFiles, createRegistryWorld } from './testing/registry-world.ts'
import type { RegistryWorld } from './testing/registry-world.ts'

const HOUR = 3_600_000
const CONFIG = Buffer.from('{}')

describe('content known by sha512', () => {
  let world: RegistryWorld
  let registry: RegistryServer & { dir: string }
  let client: RegistryClient

  const open = async () => world.start({ authorize: async () => ({ ok: true }) })
  const push = async (bytes: Uint8Array, algorithm: DigestAlgorithm = 'sha512'): Promise<Descriptor> => {
    const digest = digestOf(algorithm, bytes)
    await client.putBlob('a/b', digest, bytes.byteLength, bytes)
    return { mediaType: 'x/y', digest, size: bytes.byteLength }
  }
  const manifestOf = async (layer: Descriptor, more: object = {}) =>
    Buffer.from(
      JSON.stringify({
        schemaVersion: 2,
        mediaType: mediaTypes.manifest,
        config: await push(CONFIG),
        layers: [layer],
        ...more,
      }),
    )
  const pushManifest = async (bytes: Uint8Array, mediaType: string = mediaTypes.manifest) => {
    const info = await client.putManifest('a/b', digestOf('sha512', bytes), mediaType, bytes)
    expect(info.digest).toBe(digestOf('sha512', bytes))
    return info
  }
  /** An index, its image, and what refers to the image: all by sha512. */
  const pushTree = async () => {
    const image = await pushManifest(await manifestOf(await push(Buffer.from('layer'))))
    const index = Buffer.from(
      JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.index, manifests: [image] }),
    )
    const root = await pushManifest(index, mediaTypes.index)
    const about = { artifactType: 'x/signature', subject: image }
    const referrer = await pushManifest(await manifestOf(await push(Buffer.from('signature')), about))
    return { image, root, referrer }
  }

  beforeEach(async () => {
    world = await createRegistryWorld()
    registry = await open()
    client = world.client(registry, 'x')
  })
  afterEach(() => world.close())

  it.each([
    ['at once', 1, 'one'],
    ['in pieces', 2, 'one'],
    ['by two processes', 2, 'two'],
  ])('is taken when it arrives %s', async (_how, pieces, processes) => {
    const bytes = Buffer.from('0123456789')
    const digest = digestOf('sha512', bytes)
    const base = '/v2/a/b/blobs/uploads/'
    const authorize = async () => ({ ok: true }) as const
    const last = processes === 'one' ? registry : await world.start({ dir: registry.dir, authorize })
    const opened =
      pieces === 1 ? undefined : await rawRequest(registry.url, 'POST', `${base}?digest-algorithm=sha512`)
    const at = opened?.headers.location ?? base
    if (opened) await rawRequest(registry.url, 'PATCH', at, { body: bytes.subarray(0, 4) })
    const ended = await rawRequest(last.url, opened ? 'PUT' : 'POST', `${at}?digest=${digest}`, {
      body: opened ? bytes.subarray(4) : bytes,
    })
    expect(ended).toMatchObject({ status: 201, headers: { 'docker-content-digest': digest } })
    const answer = await rawRequest(registry.url, 'GET', `/v2/a/b/blobs/${digest}`)
    expect([answer.status, answer.body.toString()]).toEqual([200, '0123456789'])
    expect(await client.hasBlob('a/b', sha256Digest(bytes))).toBe(false)
    expect(await readdir(join(registry.dir, 'blobs'))).toEqual(['sha512'])
    expect(await allFiles(join(registry.dir, 'tmp'))).toEqual([])
  })

  it('is verified by that algorithm, and refused under one that is not known', async () => {
    const post = (query: string) =>
      rawRequest(registry.url, 'POST', `/v2/a/b/blobs/uploads/?${query}`, { body: Buffer.from('other') })
    const wrong = digestOf('sha512', Buffer.from('content'))
    expect(await post(`digest=${wrong}`)).toMatchObject({ status: 400, code: 'DIGEST_INVALID' })
    for (const query of [`digest=sha384:${'a'.repeat(96)}`, 'digest-algorithm=sha384']) {
      const answer = await post(query)
      expect(answer).toMatchObject({ status: 400, code: 'DIGEST_INVALID' })
      expect(answer.body.toString()).toMatch(/use sha256.* or sha512/)
    }
    await expect(
      client.putManifest('a/b', wrong, mediaTypes.manifest, await manifestOf(await push(CONFIG))),
    ).rejects.toMatchObject({ code: 'DIGEST_MISMATCH' })
    expect(await allFiles(join(registry.dir, 'uploads'))).toEqual([])
  })

  it('is served, listed among referrers and mounted; a push by tag keeps sha256', async () => {
    const { image, referrer } = await pushTree()
    const { bytes, digest } = await client.getManifest('a/b', image.digest)
    expect(digest).toBe(image.digest)
    expect(await client.listReferrers('a/b', image.digest)).toMatchObject([{ digest: referrer.digest }])
    expect(await client.mountBlob('a/c', digestOf('sha512', CONFIG), 'a/b')).toBe(true)
    const tagged = await client.putManifest('a/b', 'v1', mediaTypes.manifest, bytes)
    expect(tagged.digest).toBe(sha256Digest(bytes))
    expect(await client.headManifest('a/b', 'v1')).toMatchObject({ digest: sha256Digest(bytes) })
  })

  it('is copied with its tree and referrers, into a registry and through a layout', async () => {
    const { image, root, referrer } = await pushTree()
    const from = { client, repository: 'a/b' }
    const options = { digest: root.digest, referrers: true, tag: 'v1' }
    const check = async (to: RegistryClient) => {
      for (const { digest } of [root, image, referrer]) {
        expect(await to.headManifest('a/b', digest)).toMatchObject({ digest })
      }
      expect(await to.listReferrers('a/b', image.digest)).toMatchObject([{ digest: referrer.digest }])
      expect(await to.headManifest('a/b', 'v1')).toBeDefined()
    }
    const second = world.client(await open(), 'x')
    expect(await copyArtifact({ ...options, from, to: { client: second, repository: 'a/b' } })).toMatchObject(
      {
        digest: root.digest,
        manifests: 3,
        blobs: 3,
      },
    )
    await check(second)
    const dir = join(world.dir, 'layout')
    await exportLayout(dir, { ...options, from })
    expect(await readdir(join(dir, 'blobs'))).toEqual(['sha512'])
    const third = world.client(await open(), 'x')
    await importLayout(dir, { ...options, reference: root.digest, to: { client: third, repository: 'a/b' } })
    await check(third)
  })

  it('is kept by garbage collection while it is needed, found by closures, and goes when it is not', async () => {
    const { image, root, referrer } = await pushTree()
    const lost = await push(Buffer.from('lost'))
    const storage = await createFileStorage(registry.dir)
    const age = async () => {
      const time = new Date(Date.now() - 2 * HOUR)
      for (const file of await allFiles(registry.dir)) await utimes(file, time, time)
    }
    const collect = (isRoot?: (repository: string, digest: Digest) => boolean) =>
      collectGarbage(storage, { graceMs: HOUR, now: Date.now, untagged: 'remove', ...(isRoot && { isRoot }) })
    await age()
    const kept = await collect((_repository, digest) => digest === root.digest)
    expect(kept).toMatchObject({ manifests: 0, blobs: 1, contents: 1, bytesFreed: lost.size })
    const closures = createClosures({ storage, now: Date.now })
    for (const digest of [image.digest, referrer.digest, digestOf('sha512', CONFIG)]) {
      expect(await closures.reach('a/b', [root.digest], digest)).toBe(true)
    }
    await age()
    expect(await collect()).toMatchObject({ manifests: 3, blobs: 3, contents: 6 })
    expect(await allFiles(join(registry.dir, 'blobs'))).toEqual([])
    expect(await client.listReferrers('a/b', image.digest)).toEqual([])
  })

  it('has a referrers tag of the length that tags may have, where a registry has no such list', async () => {
    const { image } = await pushTree()
    const name = `sha512-${image.digest.slice('sha512:'.length, 'sha512:'.length + 64)}`
    const list = { schemaVersion: 2, mediaType: mediaTypes.index, manifests: [image] }
    await client.putManifest('a/b', name, mediaTypes.index, Buffer.from(JSON.stringify(list)))
    const bare = await world.start({
      dir: registry.dir,
      authorize: async () => ({ ok: true }),
      beside: (req, res) => {
        if (!req.url?.includes('/referrers/')) return false
        res.writeHead(404).end()
        return true
      },
    })
    expect(await world.client(bare, 'x').listReferrers('a/b', image.digest)).toMatchObject([
      { digest: image.digest },
    ])
  })
})
