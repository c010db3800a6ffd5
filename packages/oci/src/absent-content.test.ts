import { utimes } from 'node:fs/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  collectGarbage,
  copyArtifact,
  createClosures,
  createFileStorage,
  mediaTypes,
  sha256Digest,
} from './index.ts'
import type { Descriptor, RegistryClient, RegistryServer } from './index.ts'
import { allFiles, createRegistryWorld } from './testing/registry-world.ts'
import type { RegistryWorld } from './testing/registry-world.ts'

const HOUR = 3_600_000
const FOREIGN = 'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip'
const bytesOf = (value: object) => Buffer.from(JSON.stringify({ schemaVersion: 2, ...value }))

describe('a manifest whose content is not all there', () => {
  let world: RegistryWorld
  let registry: RegistryServer & { dir: string }
  let client: RegistryClient

  beforeEach(async () => {
    world = await createRegistryWorld()
    registry = await world.start({ authorize: async () => ({ ok: true }) })
    client = world.client(registry, 'x')
  })
  afterEach(() => world.close())

  const push = async (text: string, at = client): Promise<Descriptor> => {
    const bytes = Buffer.from(text)
    await at.putBlob('a/b', sha256Digest(bytes), bytes.byteLength, bytes)
    return { mediaType: 'x/y', digest: sha256Digest(bytes), size: bytes.byteLength }
  }
  const foreign = (more: object = { mediaType: FOREIGN }) => ({
    mediaType: mediaTypes.layerTarGz,
    digest: sha256Digest(Buffer.from('foreign')),
    size: 7,
    ...more,
  })
  const image = async (layers: object[], at = client) => {
    const config = await push('{}', at)
    return at.putManifest(
      'a/b',
      'v1',
      mediaTypes.manifest,
      bytesOf({ mediaType: mediaTypes.manifest, config, layers }),
    )
  }

  it.each([
    FOREIGN,
    'application/vnd.oci.image.layer.nondistributable.v1.tar',
    'application/vnd.oci.image.layer.nondistributable.v1.tar+gzip',
    'application/vnd.oci.image.layer.nondistributable.v1.tar+zstd',
  ])('is taken without a layer of the type %s', async (mediaType) => {
    expect(await image([await push('layer'), foreign({ mediaType })])).toMatchObject({
      mediaType: mediaTypes.manifest,
    })
  })

  it('is taken without a layer that can be had elsewhere, and refused without any other', async () => {
    await image([foreign({ urls: ['https://example.com/layer'] })])
    for (const more of [{}, { urls: [] }, { mediaType: `${FOREIGN}x` }]) {
      await expect(image([foreign(more)])).rejects.toMatchObject({ code: 'MANIFEST_BLOB_UNKNOWN' })
    }
    await push('foreign')
    await expect(image([foreign({ mediaType: FOREIGN, size: 8 })])).rejects.toMatchObject({ code: 'REFUSED' })
    await expect(image([foreign({ urls: 'https://example.com' })])).rejects.toMatchObject({ code: 'REFUSED' })
  })

  it('is copied without that layer, and with it where the source has it', async () => {
    const { digest } = await image([await push('layer'), foreign()])
    const copy = async () => {
      const to = world.client(await world.start({ authorize: async () => ({ ok: true }) }), 'x')
      const from = { client, repository: 'a/b' }
      const result = await copyArtifact({ from, to: { client: to, repository: 'a/b' }, digest })
      return { blobs: result.blobs, hasForeign: await to.hasBlob('a/b', foreign().digest) }
    }
    expect(await copy()).toEqual({ blobs: 2, hasForeign: false })
    await push('foreign')
    expect(await copy()).toEqual({ blobs: 3, hasForeign: true })
  })

  it('keeps that layer from being garbage, and reaches it in its closure', async () => {
    const { digest } = await image([foreign()])
    const storage = await createFileStorage(registry.dir)
    const collect = async () => {
      const time = new Date(Date.now() - 2 * HOUR)
      for (const file of await allFiles(registry.dir)) await utimes(file, time, time)
      return collectGarbage(storage, { graceMs: HOUR, now: Date.now, untagged: 'remove' })
    }
    expect(await collect()).toMatchObject({ manifests: 0, blobs: 0, contents: 0 })
    await push('foreign')
    expect(await collect()).toMatchObject({ manifests: 0, blobs: 0, contents: 0 })
    expect(await client.hasBlob('a/b', foreign().digest)).toBe(true)
    const closures = createClosures({ storage, now: Date.now })
    expect(await closures.reach('a/b', [digest], foreign().digest)).toBe(true)
  })

  it('is an index without one of its manifests only where the registry says so', async () => {
    const absent = { mediaType: mediaTypes.manifest, digest: sha256Digest(Buffer.from('absent')), size: 6 }
    const sparse = await world.start({ authorize: async () => ({ ok: true }), sparseIndexes: true })
    const lenient = world.client(sparse, 'x')
    const layer = await push('layer', lenient)
    const present = await image([layer], lenient)
    const index = bytesOf({ mediaType: mediaTypes.index, manifests: [present, absent] })
    const put = (at: RegistryClient) => at.putManifest('a/b', 'all', mediaTypes.index, index)
    const { digest } = await put(lenient)
    await image([await push('layer')])
    await expect(put(client)).rejects.toMatchObject({ message: expect.stringContaining(absent.digest) })
    const wrongSize = bytesOf({ mediaType: mediaTypes.index, manifests: [{ ...present, size: 1 }] })
    await expect(lenient.putManifest('a/b', 'all', mediaTypes.index, wrongSize)).rejects.toMatchObject({
      code: 'REFUSED',
    })
    const storage = await createFileStorage(sparse.dir)
    const closures = createClosures({ storage, now: Date.now })
    expect(await closures.reach('a/b', [digest], layer.digest)).toBe(true)
    expect(await collectGarbage(storage, { graceMs: 0, now: () => Date.now() + HOUR })).toMatchObject({
      manifests: 0,
      blobs: 0,
    })
  })
})
