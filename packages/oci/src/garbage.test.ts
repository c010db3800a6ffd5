import { randomBytes } from 'node:crypto'
import { rename, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  collectGarbage,
  createFileStorage,
  mediaTypes,
  pushArtifact,
  registryUsage,
  sha256Digest,
} from './index.ts'
import type { Descriptor, Digest, RegistryClient, Storage } from './index.ts'
import { allFiles, createRegistryWorld } from './testing/registry-world.ts'
import type { RegistryWorld } from './testing/registry-world.ts'

const HOUR = 3_600_000

describe('garbage collection', () => {
  let world: RegistryWorld
  let dir: string
  let client: RegistryClient
  let storage: Storage

  beforeEach(async () => {
    world = await createRegistryWorld()
    const registry = await world.start({ authorize: async () => ({ ok: true }) })
    dir = registry.dir
    client = world.client(registry, 'x')
    storage = await createFileStorage(dir)
  })
  afterEach(() => world.close())

  const push = (
    repository: string,
    layers: Uint8Array[],
    more: { tag?: string; subject?: Descriptor } = {},
  ) =>
    pushArtifact({
      client,
      repository,
      artifactType: 'x/y',
      layers: layers.map((bytes) => ({ mediaType: 'x/z', bytes })),
      ...more,
    })
  const blob = async (repository: string, bytes: Uint8Array): Promise<Digest> => {
    await client.putBlob(repository, sha256Digest(bytes), bytes.byteLength, bytes)
    return sha256Digest(bytes)
  }
  /** Lets everything stored so far look as old as this. */
  const age = async (ms = 2 * HOUR) => {
    const time = new Date(Date.now() - ms)
    for (const file of await allFiles(dir)) {
      for (const path of [file, join(file, '..')]) await utimes(path, time, time).catch(ignoreMissing)
    }
  }
  const collect = (more: { dryRun?: boolean; untagged?: 'remove' } = {}) =>
    collectGarbage(storage, { graceMs: HOUR, now: Date.now, ...more })
  const nothing = { manifests: 0, blobs: 0, contents: 0, uploads: 0, bytesFreed: 0, dryRun: false }

  it('keeps all that manifests, indexes and referrers name, tagged or not', async () => {
    const child = await push('a', [randomBytes(100)])
    const index = Buffer.from(
      JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.index, manifests: [child] }),
    )
    await client.putManifest('a', 'all', mediaTypes.index, index)
    await push('a', [randomBytes(50)], { subject: child })
    await age()
    expect(await collect()).toEqual(nothing)
    const usage = await registryUsage(storage)
    expect(usage.repositories).toEqual([
      expect.objectContaining({ name: 'a', manifests: 3, tags: 1, blobs: 3 }),
    ])
  })

  it('removes blobs that nothing names, once they are old, and tells the bytes', async () => {
    const lost = await blob('a/b', randomBytes(1000))
    await push('a/b', [randomBytes(10)], { tag: 'v1' })
    expect(await collect()).toEqual(nothing)
    await age()
    expect(await collect({ dryRun: true })).toMatchObject({ blobs: 1, contents: 1, bytesFreed: 1000 })
    expect(await storage.upkeep.listBlobs('a/b')).toHaveLength(3)
    expect(await collect()).toEqual({ ...nothing, blobs: 1, contents: 1, bytesFreed: 1000 })
    expect(await client.hasBlob('a/b', lost)).toBe(false)
    expect((await registryUsage(storage)).repositories[0]?.blobs).toBe(2)
    expect(await collect()).toEqual(nothing)
  })

  it('keeps content that another repository still needs', async () => {
    const bytes = randomBytes(1000)
    await blob('a', bytes)
    const kept = await push('b', [bytes])
    await age()
    expect(await collect()).toMatchObject({ blobs: 1, contents: 0, bytesFreed: 0 })
    expect(await client.hasBlob('b', sha256Digest(bytes))).toBe(true)
    expect(await client.headManifest('b', kept.digest)).toBeDefined()
  })

  it('frees what a deleted manifest was the last to need', async () => {
    const gone = await push('a', [randomBytes(1000)], { tag: 'v1' })
    await push('a', [randomBytes(500)], { tag: 'v2' })
    await storage.deleteManifest('a', gone.digest)
    await age()
    expect(await collect()).toMatchObject({ blobs: 1, contents: 2, bytesFreed: 1000 + gone.size })
  })

  it('removes untagged manifests only on request, and never what tags reach or what refers to it', async () => {
    const loose = await push('a', [randomBytes(1000)])
    await push('a', [randomBytes(30)], { subject: loose })
    const child = await push('a', [randomBytes(100)])
    const index = Buffer.from(
      JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.index, manifests: [child] }),
    )
    const root = await client.putManifest('a', 'all', mediaTypes.index, index)
    const signature = await push('a', [randomBytes(20)], { subject: root })
    await age()
    expect(await collect()).toEqual(nothing)
    expect(await collect({ untagged: 'remove' })).toMatchObject({ manifests: 2, blobs: 2, contents: 4 })
    for (const { digest } of [child, root, signature]) {
      expect(await client.headManifest('a', digest)).toBeDefined()
    }
    expect(await client.headManifest('a', loose.digest)).toBeUndefined()
    expect(await storage.listReferrers('a', loose.digest)).toEqual([])
  })

  it('keeps the blobs of a repository that is being pushed to', async () => {
    const early = await blob('a', randomBytes(100))
    const other = await blob('b', randomBytes(100))
    await age()
    await storage.createUpload('a')
    expect(await collect()).toMatchObject({ blobs: 1, uploads: 0 })
    expect(await client.hasBlob('a', early)).toBe(true)
    expect(await client.hasBlob('b', other)).toBe(false)
  })

  it('keeps a blob that somebody asked for, since a manifest may follow', async () => {
    const bytes = randomBytes(100)
    await blob('a', bytes)
    await age()
    expect(await client.hasBlob('a', sha256Digest(bytes))).toBe(true)
    expect(await collect()).toEqual(nothing)
    await push('a', [bytes])
  })

  it('removes uploads and temporary files that nobody goes on with', async () => {
    const stale = await storage.createUpload('a')
    await storage.appendUpload('a', stale, 0, Readable.from([randomBytes(700)]))
    await age()
    const fresh = await storage.createUpload('b')
    expect(await collect({ dryRun: true })).toMatchObject({ uploads: 1, bytesFreed: 700 })
    expect(await collect()).toMatchObject({ uploads: 1, bytesFreed: 700 })
    await expect(storage.uploadSize('a', stale)).rejects.toMatchObject({ code: 'UPLOAD_UNKNOWN' })
    expect(await storage.uploadSize('b', fresh)).toBe(0)
  })

  it('puts back what a collection that was killed had set aside', async () => {
    const bytes = randomBytes(100)
    const { digest } = await push('a', [bytes])
    await age()
    const aside = (await allFiles(dir)).filter((file) => file.endsWith(sha256Digest(bytes).slice(7)))
    for (const file of aside) await rename(file, `${file}.removing`)
    expect(await client.hasBlob('a', sha256Digest(bytes))).toBe(false)
    expect(await collect()).toEqual(nothing)
    expect(await client.hasBlob('a', sha256Digest(bytes))).toBe(true)
    expect(await client.headManifest('a', digest)).toBeDefined()
    expect((await allFiles(dir)).filter((file) => file.endsWith('.removing'))).toEqual([])
  })

  it('never breaks a push that runs at the same time in another process', async () => {
    const layers = Array.from({ length: 6 }, () => randomBytes(200))
    const other = await createFileStorage(dir)
    let isPushing = true
    const collecting = (async () => {
      let runs = 0
      for (; isPushing; runs++) await collectGarbage(other, { graceMs: 1100, now: Date.now })
      return runs
    })()
    const pushed: { digest: Digest; layer: Digest }[] = []
    for (let round = 0; round < 25; round++) {
      const layer = layers[round % layers.length] ?? Buffer.alloc(0)
      const { digest } = await push('a', [layer, randomBytes(10)])
      // Deleted at once, so that the next push finds blobs that are garbage and old.
      if (round % 2 === 0) {
        await storage.deleteManifest('a', digest)
        await age()
      } else pushed.push({ digest, layer: sha256Digest(layer) })
    }
    isPushing = false
    expect(await collecting).toBeGreaterThan(2)
    for (const { digest, layer } of pushed) {
      expect((await client.getManifest('a', digest)).digest).toBe(digest)
      expect(await client.hasBlob('a', layer)).toBe(true)
    }
  })
})

const ignoreMissing = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'ENOENT') throw error
}
