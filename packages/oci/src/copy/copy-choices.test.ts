import { randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  copyArtifact,
  createSourceLimit,
  createUploadSessions,
  mediaTypes,
  parsePlatform,
  pushArtifact,
  sha256Digest,
} from '../index.ts'
import type { CopyEnd, Descriptor, Digest, RegistryEvent } from '../index.ts'
import { startCuttingProxy } from '../testing/cutting-proxy.ts'
import { allFiles, createRegistryWorld, waitFor } from '../testing/registry-world.ts'
import type { RegistryWorld } from '../testing/registry-world.ts'

const MiB = 1024 * 1024

describe('a copy', () => {
  let world: RegistryWorld
  let vendor: Awaited<ReturnType<RegistryWorld['start']>>
  let install: typeof vendor
  const pushed: RegistryEvent[] = []

  beforeEach(async () => {
    pushed.length = 0
    world = await createRegistryWorld()
    const authorize = async () => ({ ok: true }) as const
    vendor = await world.start({ authorize })
    install = await world.start({ authorize, onEvent: (event) => pushed.push(event) })
  })
  afterEach(() => world.close())

  const end = ({ url }: { url: string }, repository = 'apps/a'): CopyEnd => ({
    client: world.client({ url }, 'x'),
    repository,
  })
  const push = (repository: string, layers: Uint8Array[], subject?: Descriptor) =>
    pushArtifact({
      client: world.client(vendor, 'x'),
      repository,
      artifactType: subject === undefined ? 'x/app' : 'x/signature',
      layers: layers.map((bytes) => ({ mediaType: 'x/z', bytes })),
      ...(subject === undefined ? {} : { subject }),
    })
  const sent = (digest: Digest) =>
    pushed.filter((event) => event.type === 'blob.pushed' && event.digest === digest).length

  const pushIndex = async () => {
    const platforms = ['linux/amd64', 'linux/arm64']
    const manifests = []
    for (const platform of platforms) {
      manifests.push({ ...(await push('apps/a', [randomBytes(50)])), platform: parsePlatform(platform) })
    }
    const body = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.index, manifests }))
    const client = world.client(vendor, 'x')
    return { manifests, index: await client.putManifest('apps/a', 'all', mediaTypes.index, body) }
  }

  it('takes one platform of an index, under a tag', async () => {
    const { manifests, index } = await pushIndex()
    const [from, to] = [end(vendor), end(install)]
    const platform = parsePlatform('linux/arm64')
    const result = await copyArtifact({ from, to, digest: index.digest, platform, tag: 'arm' })
    expect(result).toMatchObject({ digest: manifests[1]?.digest, manifests: 1 })
    expect((await to.client.headManifest('apps/a', 'arm'))?.digest).toBe(manifests[1]?.digest)
    expect(await to.client.headManifest('apps/a', index.digest)).toBeUndefined()
    const none = copyArtifact({ from, to, digest: index.digest, platform: parsePlatform('linux/s390x') })
    await expect(none).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('takes referrers along on request, those of an index and of its manifests', async () => {
    const { manifests, index } = await pushIndex()
    const [first] = manifests
    if (first === undefined) throw new Error('no manifest')
    const signatures = [
      await push('apps/a', [randomBytes(9)], index),
      await push('apps/a', [randomBytes(9)], first),
    ]
    const [from, to] = [end(vendor), end(install)]
    const bare = await copyArtifact({ from, to, digest: index.digest })
    expect(bare).toMatchObject({ manifests: 3, referrers: [] })
    const whole = await copyArtifact({ from, to, digest: index.digest, referrers: true })
    expect(whole).toMatchObject({ digest: index.digest, manifests: 5 })
    expect(whole.referrers.map((each) => each.digest).toSorted()).toEqual(
      signatures.map((each) => each.digest).toSorted(),
    )
    expect(await to.client.listReferrers('apps/a', index.digest)).toMatchObject([
      { digest: signatures[0]?.digest },
    ])
  })

  it('sends a blob once to a registry, however many copies need it at the same time', async () => {
    const layer = randomBytes(3 * MiB)
    const shared = sha256Digest(layer)
    const copies = await Promise.all(
      ['apps/a', 'apps/b', 'apps/c', 'apps/a'].map(async (repository, index) => {
        const { digest } = await push(repository, [layer, randomBytes(10 + index)])
        return { repository, digest }
      }),
    )
    const results = await Promise.all(
      copies.map(({ repository, digest }) =>
        copyArtifact({ from: end(vendor, repository), to: end(install, repository), digest }),
      ),
    )
    expect(sent(shared)).toBe(1)
    expect(results.filter((result) => result.transferredBytes > MiB)).toHaveLength(1)
    for (const { repository, digest } of copies) {
      expect(await end(install).client.headManifest(repository, digest)).toBeDefined()
    }
  })

  it('goes on by itself when the copy it waited for fails', async () => {
    const layer = randomBytes(3 * MiB)
    const one = await push('apps/a', [layer])
    const cancel = new AbortController()
    const limit = createSourceLimit({ bytesPerSecond: MiB, burstBytes: 1 })
    const failing = copyArtifact({
      from: end(vendor),
      to: end(install),
      digest: one.digest,
      limit,
      signal: cancel.signal,
      onProgress: ({ doneBytes }) => (doneBytes > 65_000 ? cancel.abort() : undefined),
    })
    const waiting = copyArtifact({ from: end(vendor), to: end(install), digest: one.digest })
    await expect(failing).rejects.toMatchObject({ code: 'ABORTED' })
    await expect(waiting).resolves.toMatchObject({ digest: one.digest })
  })

  it('keeps to the limit of its source, shared by all copies', async () => {
    const artifacts = [await push('apps/a', [randomBytes(MiB)]), await push('apps/a', [randomBytes(MiB)])]
    const limit = createSourceLimit({ concurrent: 1, bytesPerSecond: 2 * MiB, burstBytes: MiB })
    const started = performance.now()
    await Promise.all(
      artifacts.map(({ digest }) => copyArtifact({ from: end(vendor), to: end(install), digest, limit })),
    )
    expect(performance.now() - started).toBeGreaterThan(450)
  })

  it('goes on in the middle of a blob after the process that copied is gone', async () => {
    const layer = randomBytes(8 * MiB)
    const { digest } = await push('apps/a', [layer])
    const dir = join(world.dir, 'sessions')
    const cancel = new AbortController()
    const first = copyArtifact({
      from: end(vendor),
      to: end(install),
      digest,
      sessions: createUploadSessions(dir),
      signal: cancel.signal,
      onProgress: ({ doneBytes }) => (doneBytes > 5 * MiB ? cancel.abort() : undefined),
    })
    await expect(first).rejects.toMatchObject({ code: 'ABORTED' })
    expect(await allFiles(dir)).toHaveLength(1)
    // The small config may be on its way from there to its place.
    const sizeOf = (file: string) =>
      stat(file).then(
        ({ size }) => size,
        () => 0,
      )
    const held = async () => {
      const files = await allFiles(join(install.dir, 'uploads'))
      return (await Promise.all(files.map(sizeOf))).reduce((sum, size) => sum + size, 0)
    }
    let before = 0
    await waitFor('the registry to have written a part', async () => (before = await held()) > 0)
    const proxy = await startCuttingProxy(vendor.url, {})
    const sessions = createUploadSessions(dir)
    await copyArtifact({ from: end(proxy), to: end(install), digest, sessions })
    expect(proxy.sent().down).toBeLessThan(8 * MiB - before + MiB)
    expect(await allFiles(dir)).toEqual([])
    expect(await allFiles(join(install.dir, 'uploads'))).toEqual([])
    const { size } = await end(install).client.getBlob('apps/a', sha256Digest(layer))
    expect(size).toBe(8 * MiB)
    await proxy.close()
  })

  it('forgets an upload whose blob arrived before its process died', async () => {
    const layer = randomBytes(2 * MiB)
    const { digest } = await push('apps/a', [layer])
    const dir = join(world.dir, 'sessions')
    const sessions = createUploadSessions(dir)
    await copyArtifact({ from: end(vendor), to: end(install), digest, sessions })
    await sessions.set(`${install.url} apps/a ${sha256Digest(layer)}`, '/v2/apps/a/blobs/uploads/gone')
    await copyArtifact({ from: end(vendor), to: end(install), digest, sessions })
    expect(await allFiles(dir)).toEqual([])
  })

  it('starts again when what it resumed turns out to be something else', async () => {
    const layer = randomBytes(2 * MiB)
    const { digest } = await push('apps/a', [layer])
    const sessions = createUploadSessions(join(world.dir, 'sessions'))
    const opened = await fetch(`${install.url}/v2/apps/a/blobs/uploads/`, { method: 'POST' })
    const location = opened.headers.get('location') ?? ''
    await fetch(`${install.url}${location}`, { method: 'PATCH', body: randomBytes(1000) })
    await sessions.set(`${install.url} apps/a ${sha256Digest(layer)}`, location)
    await copyArtifact({ from: end(vendor), to: end(install), digest, sessions })
    expect(sent(sha256Digest(layer))).toBe(1)
  })
})
