import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { copyArtifact, mediaTypes, pushArtifact, sha256Digest } from '../index.ts'
import type { Authorize, CopyProgress, RegistryClient } from '../index.ts'
import { startCuttingProxy } from '../testing/cutting-proxy.ts'
import type { CuttingProxy } from '../testing/cutting-proxy.ts'
import { allFiles, createRegistryWorld, waitFor } from '../testing/registry-world.ts'
import type { RegistryWorld } from '../testing/registry-world.ts'

const MiB = 1024 * 1024

const expectForward = (seen: CopyProgress[]) => {
  for (const [index, { doneBytes }] of seen.entries()) {
    expect(doneBytes).toBeGreaterThanOrEqual(seen[index - 1]?.doneBytes ?? 0)
  }
  expect(seen.at(-1)?.doneBytes).toBe(seen.at(-1)?.totalBytes)
  expect(seen.at(-1)?.doneBlobs).toBe(seen.at(-1)?.totalBlobs)
}

describe('copying an artifact by digest', () => {
  let world: RegistryWorld
  let vendor: Awaited<ReturnType<RegistryWorld['start']>>
  let install: typeof vendor
  const proxies: CuttingProxy[] = []

  beforeEach(async () => {
    world = await createRegistryWorld()
    vendor = await world.start()
    install = await world.start()
  })
  afterEach(async () => {
    await Promise.all(proxies.splice(0).map((proxy) => proxy.close()))
    await world.close()
  })

  const client = (url: string): RegistryClient =>
    world.client(
      { url },
      world.token(['apps/hello', 'apps/other'].map((name) => ({ name, actions: ['pull', 'push'] }))),
    )
  const source = (url = vendor.url) => ({ client: client(url), repository: 'apps/hello' })
  const target = (url = install.url) => ({ client: client(url), repository: 'apps/hello' })

  const push = (layers: Uint8Array[], tag?: string) =>
    pushArtifact({
      ...source(),
      artifactType: 'x/y',
      layers: layers.map((bytes) => ({ mediaType: 'x/z', bytes })),
      ...(tag === undefined ? {} : { tag }),
    })

  const cutting = async (url: string, cutAfter: { up?: number; down?: number }): Promise<CuttingProxy> => {
    const proxy = await startCuttingProxy(url, cutAfter)
    proxies.push(proxy)
    return proxy
  }

  it('brings 12 MB over, tells its progress, and transfers nothing the second time', async () => {
    const layers = Array.from({ length: 6 }, () => randomBytes(2 * MiB))
    const { digest } = await push(layers)
    const seen: CopyProgress[] = []
    const first = await copyArtifact({
      from: source(),
      to: target(),
      digest,
      onProgress: (p) => seen.push(p),
    })
    expect(first).toMatchObject({
      digest,
      manifests: 1,
      blobs: 7,
      transferredBytes: 12 * MiB + 2,
      skippedBytes: 0,
    })
    expectForward(seen)
    expect((await target().client.getManifest('apps/hello', digest)).digest).toBe(digest)
    const again = await copyArtifact({ from: source(), to: target(), digest })
    expect(again).toMatchObject({ digest, transferredBytes: 0, skippedBytes: 12 * MiB + 2 })
  })

  it('reads no faster than the other side takes it', async () => {
    const { digest } = await push([randomBytes(30 * MiB)])
    let open = (): void => {}
    const gate = new Promise<void>((resolve) => (open = resolve))
    let pushes = 0
    // The empty config is there already, so the second push request is the layer's content.
    const authorize: Authorize = async ({ action }) => {
      if (action === 'push' && ++pushes > 1) await gate
      return { ok: true }
    }
    await target().client.putBlob('apps/hello', sha256Digest(Buffer.from('{}')), 2, Buffer.from('{}'))
    const slow = await world.start({ dir: install.dir, authorize })
    let done = 0
    const copying = copyArtifact({
      from: source(),
      to: target(slow.url),
      digest,
      onProgress: (p) => (done = p.doneBytes),
    })
    let before = -1
    let calm = 0
    await waitFor('the copy to stand still', async () => {
      calm = done > 2 && done === before ? calm + 1 : 0
      before = done
      return calm > 10
    })
    expect(done).toBeLessThan(15 * MiB)
    open()
    await expect(copying).resolves.toMatchObject({ transferredBytes: 30 * MiB })
  })

  it('goes on at the missing byte when the source breaks off', async () => {
    const { digest } = await push([randomBytes(8 * MiB)])
    const proxy = await cutting(vendor.url, { down: 5 * MiB })
    const seen: CopyProgress[] = []
    await copyArtifact({ from: source(proxy.url), to: target(), digest, onProgress: (p) => seen.push(p) })
    expect(proxy.cuts()).toBe(1)
    expect(proxy.sent().down).toBeLessThan(10 * MiB)
    expectForward(seen)
  })

  it('goes on at the missing byte when the destination breaks off', async () => {
    const { digest } = await push([randomBytes(16 * MiB)])
    const proxy = await cutting(install.url, { up: 12 * MiB })
    const seen: CopyProgress[] = []
    await copyArtifact({ from: source(), to: target(proxy.url), digest, onProgress: (p) => seen.push(p) })
    expect(proxy.cuts()).toBe(1)
    expect(proxy.sent().up).toBeLessThan(24 * MiB)
    expectForward(seen)
    expect((await allFiles(`${install.dir}/uploads`)).length).toBe(0)
  })

  it('copies an index with all its manifests, children first', async () => {
    const children = [await push([randomBytes(100)]), await push([randomBytes(200)])]
    const index = Buffer.from(
      JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.index, manifests: children }),
    )
    const { digest } = await source().client.putManifest('apps/hello', 'all', mediaTypes.index, index)
    const result = await copyArtifact({ from: source(), to: target(), digest })
    expect(result).toMatchObject({ digest, mediaType: mediaTypes.index, manifests: 3, blobs: 3 })
    for (const child of children)
      expect(await target().client.headManifest('apps/hello', child.digest)).toBeDefined()
  })

  it('mounts instead of copying inside one registry', async () => {
    const { digest } = await push([randomBytes(MiB)])
    const result = await copyArtifact({
      from: source(),
      to: { client: client(vendor.url), repository: 'apps/other' },
      digest,
    })
    expect(result).toMatchObject({ transferredBytes: 0, skippedBytes: MiB + 2 })
  })

  it('stops when it is canceled and leaves no manifest', async () => {
    const { digest } = await push([randomBytes(20 * MiB)])
    const cancel = new AbortController()
    const onProgress = (p: CopyProgress) => {
      if (p.doneBytes > MiB) cancel.abort()
    }
    const copying = copyArtifact({ from: source(), to: target(), digest, onProgress, signal: cancel.signal })
    await expect(copying).rejects.toMatchObject({ code: 'ABORTED' })
    expect(await target().client.headManifest('apps/hello', digest)).toBeUndefined()
  })

  it('says what is missing at the source', async () => {
    const copying = copyArtifact({ from: source(), to: target(), digest: sha256Digest(Buffer.from('none')) })
    await expect(copying).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })
})
