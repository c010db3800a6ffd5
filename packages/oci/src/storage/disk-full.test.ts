import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mediaTypes, pushArtifact, sha256Digest } from '../index.ts'
import type { RegistryClient } from '../index.ts'
import { rawRequest } from '../testing/raw-http.ts'
import { allFiles, createRegistryWorld } from '../testing/registry-world.ts'
import type { RegistryWorld } from '../testing/registry-world.ts'

const MiB = 1024 * 1024
const tools = { mount: 'mount', unmount: 'umount' }
const mountTmpfs = (dir: string) =>
  spawnSync(tools.mount, ['-t', 'tmpfs', '-o', 'size=4m,nr_inodes=200', 'tmpfs', dir])
const unmount = (dir: string) => spawnSync(tools.unmount, ['-l', dir])

const canMount = await (async () => {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-mount-'))
  const isMounted = mountTmpfs(dir).status === 0
  if (isMounted) unmount(dir)
  await rm(dir, { recursive: true })
  return isMounted
})()

describe.skipIf(!canMount)('a registry on a full disk (skipped where no tmpfs can be mounted)', () => {
  let world: RegistryWorld
  let disk: string
  let url: string
  let client: RegistryClient

  beforeAll(async () => {
    world = await createRegistryWorld()
    disk = join(world.dir, 'disk')
    await mkdir(disk)
    mountTmpfs(disk)
    const registry = await world.start({ dir: join(disk, 'registry'), authorize: async () => ({ ok: true }) })
    url = registry.url
    client = world.client(registry, 'x')
  })
  afterAll(async () => {
    unmount(disk)
    await world.close()
  })

  const leftovers = async () => [
    ...(await readdir(join(disk, 'registry/uploads'))),
    ...(await allFiles(join(disk, 'registry/tmp'))),
  ]

  it('refuses what does not fit with 507, keeps the rest whole, and goes on when there is room', async () => {
    const kept = randomBytes(MiB)
    const small = await pushArtifact({
      client,
      repository: 'a',
      artifactType: 'x/y',
      layers: [{ mediaType: 'x/z', bytes: kept }],
      tag: 'v1',
    })
    const large = randomBytes(4 * MiB)
    const put = client.putBlob('a', sha256Digest(large), large.byteLength, large)
    await expect(put).rejects.toMatchObject({ code: 'STORAGE_FULL' })
    for (const method of ['POST', 'PATCH', 'PUT']) {
      const opened = await rawRequest(url, 'POST', '/v2/a/blobs/uploads/')
      const path = method === 'POST' ? '/v2/a/blobs/uploads/' : opened.headers.location
      const answer = await rawRequest(url, method, `${path}?digest=${sha256Digest(large)}`, { body: large })
      expect(answer.status).toBe(507)
      if (method === 'POST') await rawRequest(url, 'DELETE', opened.headers.location ?? '')
    }
    expect(await leftovers()).toEqual([])
    expect((await client.getManifest('a', 'v1')).digest).toBe(small.digest)
    expect((await rawRequest(url, 'GET', `/v2/a/blobs/${sha256Digest(kept)}`)).body.equals(kept)).toBe(true)
    const fits = randomBytes(2 * MiB)
    await client.putBlob('a', sha256Digest(fits), fits.byteLength, fits)
  })

  it('never tags a manifest that it could not store', async () => {
    const config = { mediaType: 'x/y', digest: sha256Digest(Buffer.from('{}')), size: 2 }
    const body = { schemaVersion: 2, mediaType: mediaTypes.manifest, config, layers: [] }
    const text = JSON.stringify({ ...body, annotations: { long: 'x'.repeat(3 * MiB) } })
    const pushed = client.putManifest('a', 'big', mediaTypes.manifest, Buffer.from(text))
    await expect(pushed).rejects.toMatchObject({ code: 'STORAGE_FULL' })
    expect(await client.headManifest('a', 'big')).toBeUndefined()
    expect(await leftovers()).toEqual([])
  })
})
