import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pushArtifact } from '../artifact/push-artifact.ts'
import { createRegistryClient, readBlob } from '../client/client.ts'
import { createSourceLimit } from '../copy/source-limit.ts'
import type { RegistryClient } from '../client/client.ts'
import { sha256Digest } from '../digest.ts'
import { mediaTypes, namedInAnnotation, parseManifest } from '../manifest.ts'
import type { Digest } from '../reference.ts'
import { createFileStorage } from '../storage/file-storage.ts'
import type { Storage } from '../storage/storage.ts'
import type { Authorize } from './access.ts'
import { createClosures } from './closures.ts'
import { startRegistryServer } from './server.ts'
import type { RegistryServer } from './server.ts'
import { authorizeWith, createTokenIssuer } from './token.ts'
import type { RepositoryGrant } from './token.ts'

const REPOSITORY = 'apps/web'
const KEY = 'test.images'

describe('a registry that serves one blob at a time', () => {
  it('lets the others wait, and tells those who wait in vain when to come again', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'tenon-places-'))
    const limit = createSourceLimit({ concurrent: 1 })
    const authorize: Authorize = async () => ({ ok: true })
    const options = { dir, host: '127.0.0.1', port: 0, authorize, limit, limitWaitMs: 50 }
    const registry = await startRegistryServer(options)
    try {
      const client = createRegistryClient({ url: registry.url, credentials: async () => undefined })
      const layers = [{ mediaType: 'application/test', bytes: Buffer.from('content') }]
      const about = { client, repository: REPOSITORY, artifactType: 'application/test', layers }
      const { digest } = await pushArtifact(about)
      const { mediaType, bytes } = await client.getManifest(REPOSITORY, digest)
      const blob = parseManifest(mediaType, bytes).layers[0]?.digest ?? ''
      const get = () => fetch(`${registry.url}/v2/${REPOSITORY}/blobs/${blob}`)
      const leave = await limit.enter(undefined)
      const refused = await get()
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5'])
      leave()
      const all = await Promise.all([get(), get(), get()])
      expect(await Promise.all(all.map((answer) => answer.text()))).toEqual(['content', 'content', 'content'])
    } finally {
      await registry.close()
      await rm(dir, { recursive: true, force: true })
    }
  })
})

describe('a grant of roots', () => {
  const issuer = createTokenIssuer(randomBytes(32))
  let dir: string
  let storage: Storage
  let registry: RegistryServer
  let now = 0
  const alive = new Set(['job'])

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'tenon-closures-'))
    storage = await createFileStorage(dir)
    const closures = createClosures({ storage, named: namedInAnnotation(KEY), now: () => now })
    const isLive = async (subject: string) => alive.has(subject)
    const authorize = authorizeWith(issuer, Date.now, { closures, isLive })
    registry = await startRegistryServer({ dir, storage, host: '127.0.0.1', port: 0, authorize })
  })
  afterAll(async () => {
    await registry.close()
    await rm(dir, { recursive: true, force: true })
  })

  const clientWith = (...repositories: RepositoryGrant[]): RegistryClient => {
    const bearer = issuer.issue({ subject: 'job', repositories }, 60, Date.now())
    return createRegistryClient({ url: registry.url, credentials: async () => ({ bearer }) })
  }
  const writer = () => clientWith({ name: '*', actions: ['pull', 'push'] })
  const reader = (...roots: Digest[]) => clientWith({ name: REPOSITORY, actions: ['pull'], roots })
  const push = (content: string, more: object = {}) =>
    pushArtifact({
      client: writer(),
      repository: REPOSITORY,
      artifactType: 'application/test',
      layers: [{ mediaType: 'application/test', bytes: Buffer.from(content) }],
      ...more,
    })
  const pullWhole = async (client: RegistryClient, digest: Digest) => {
    const { mediaType, bytes } = await client.getManifest(REPOSITORY, digest)
    for (const layer of parseManifest(mediaType, bytes).layers) await readBlob(client, REPOSITORY, layer, 1e6)
  }

  it('reaches the tree of an index, the images that the root names, and what refers to any of them', async () => {
    const image = await push('an image')
    const [amd, arm] = [await push('amd64'), await push('arm64')]
    const index = Buffer.from(
      JSON.stringify({
        schemaVersion: 2,
        mediaType: mediaTypes.index,
        manifests: [amd, arm].map(({ mediaType, digest, size }) => ({ mediaType, digest, size })),
        annotations: { [KEY]: JSON.stringify([{ image: 'x', digest: image.digest }]) },
      }),
    )
    const { digest: root } = await writer().putManifest(
      REPOSITORY,
      sha256Digest(index),
      mediaTypes.index,
      index,
    )
    const signature = await push('a signature', { subject: { ...amd } })
    const client = reader(root)
    for (const digest of [amd.digest, arm.digest, image.digest, signature.digest])
      await pullWhole(client, digest)
    expect(await client.listReferrers(REPOSITORY, amd.digest)).toMatchObject([{ digest: signature.digest }])
  })

  it('reaches nothing else, of the same or another repository', async () => {
    const [mine, other] = [await push('mine'), await push('not mine')]
    const client = reader(mine.digest)
    await pullWhole(client, mine.digest)
    await expect(client.getManifest(REPOSITORY, other.digest)).rejects.toMatchObject({ code: 'DENIED' })
    await expect(client.listReferrers(REPOSITORY, other.digest)).rejects.toMatchObject({ code: 'DENIED' })
    await expect(client.listTags(REPOSITORY)).rejects.toMatchObject({ code: 'DENIED' })
    await expect(client.getManifest('apps/db', mine.digest)).rejects.toMatchObject({ code: 'DENIED' })
    await expect(
      client.putManifest(REPOSITORY, 'tag', mediaTypes.manifest, Buffer.from('{}')),
    ).rejects.toMatchObject({ code: 'DENIED' })
  })

  it('follows the annotation of the root only, so that an image cannot widen it', async () => {
    const hidden = await push('hidden')
    const list = JSON.stringify([{ image: 'x', digest: hidden.digest }])
    const image = await push('an image that names', { annotations: { [KEY]: list } })
    const root = await push('root', {
      annotations: { [KEY]: JSON.stringify([{ image: 'y', digest: image.digest }]) },
    })
    const client = reader(root.digest)
    await pullWhole(client, image.digest)
    await expect(client.getManifest(REPOSITORY, hidden.digest)).rejects.toMatchObject({ code: 'DENIED' })
  })

  it('sees a signature that came after it was first used', async () => {
    const root = await push('signed later')
    const client = reader(root.digest)
    await pullWhole(client, root.digest)
    const signature = await push('late', { subject: { ...root } })
    now += 5000
    expect((await client.getManifest(REPOSITORY, signature.digest)).digest).toBe(signature.digest)
  })

  it('ends with whom it was given to', async () => {
    const root = await push('for the living')
    const client = reader(root.digest)
    await pullWhole(client, root.digest)
    alive.delete('job')
    await expect(client.getManifest(REPOSITORY, root.digest)).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    alive.add('job')
  })
})
