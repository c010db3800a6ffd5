import { execFile, spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  anonymous,
  copyArtifact,
  exportLayout,
  exportLayoutTar,
  importLayoutTar,
  mediaTypes,
  pushArtifact,
} from './index.ts'
import type { CopyEnd } from './index.ts'
import { startCuttingProxy } from './testing/cutting-proxy.ts'
import { createRegistryWorld, waitFor } from './testing/registry-world.ts'
import type { RegistryWorld } from './testing/registry-world.ts'

const run = promisify(execFile)
const has = (name: string, ...args: string[]) => spawnSync(name, args, { timeout: 60_000 }).status === 0
const registryProgram = 'docker-registry'
const hasRegistry = has(registryProgram, '--version')
const hasSkopeo = has('skopeo', '--version')
const MiB = 1024 * 1024

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer()
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })

describe.skipIf(!hasRegistry)("Debian's docker-registry (skipped where it is not installed)", () => {
  let world: RegistryWorld
  let ours: CopyEnd
  let theirs: CopyEnd
  let child: ChildProcess

  beforeAll(async () => {
    world = await createRegistryWorld()
    const { url } = await world.start({ authorize: async () => ({ ok: true }) })
    ours = { client: world.client({ url }, 'x'), repository: 'apps/a' }
    const port = await freePort()
    const file = join(world.dir, 'config.yml')
    const storage = `storage: {filesystem: {rootdirectory: ${world.dir}/theirs}, delete: {enabled: true}}`
    await writeFile(
      file,
      `version: 0.1\nlog: {level: error}\n${storage}\nhttp: {addr: '127.0.0.1:${port}'}\n`,
    )
    child = spawn(registryProgram, ['serve', file], { stdio: 'ignore' })
    const other = `http://127.0.0.1:${port}`
    theirs = {
      client: world.client({ url: other }, undefined, { credentials: anonymous }),
      repository: 'apps/a',
    }
    await waitFor('docker-registry', () =>
      fetch(`${other}/v2/`).then(
        (res) => res.ok,
        () => false,
      ),
    )
  })
  afterAll(async () => {
    const ended = new Promise((resolve) => child.once('close', resolve))
    child.kill('SIGKILL')
    await ended
    await world.close()
  })

  const push = (end: CopyEnd, more: Partial<Parameters<typeof pushArtifact>[0]> = {}) =>
    pushArtifact({
      client: world.client({ url: end.client.origin }, 'x', end === theirs ? { credentials: anonymous } : {}),
      repository: end.repository,
      artifactType: 'application/vnd.test',
      layers: [{ mediaType: 'x/z', bytes: randomBytes(3 * MiB) }],
      ...more,
    })

  it('takes what our client pushes and gives it back, both ways', async () => {
    const there = await push(theirs, { tag: 'v1' })
    const back = await copyArtifact({ from: theirs, to: ours, digest: there.digest, tag: 'v1' })
    expect(back).toMatchObject({ digest: there.digest })
    const here = await push(ours)
    await copyArtifact({ from: ours, to: theirs, digest: here.digest, tag: 'v2' })
    expect((await theirs.client.headManifest('apps/a', 'v2'))?.digest).toBe(here.digest)
    const again = await copyArtifact({ from: ours, to: theirs, digest: here.digest, tag: 'v2' })
    expect(again.transferredBytes).toBe(0)
  })

  it('gets referrers under the fallback tag, since it has no referrers API', async () => {
    const subject = await push(ours)
    const signature = await push(ours, { subject, layers: [], artifactType: 'x/signature' })
    await copyArtifact({ from: ours, to: theirs, digest: subject.digest, referrers: true })
    const found = await theirs.client.listReferrers('apps/a', subject.digest)
    expect(found).toMatchObject([{ digest: signature.digest, artifactType: 'x/signature' }])
    const back = { ...ours, repository: 'apps/back' }
    const result = await copyArtifact({ from: theirs, to: back, digest: subject.digest, referrers: true })
    expect(result.referrers).toMatchObject([{ digest: signature.digest }])
    expect(await ours.client.listReferrers('apps/back', subject.digest)).toHaveLength(1)
  })

  it('is copied from and to over connections that break', async () => {
    const big = await push(ours, { layers: [{ mediaType: 'x/z', bytes: randomBytes(8 * MiB) }] })
    const up = await startCuttingProxy(theirs.client.origin, { up: 5 * MiB })
    const proxied = world.client(up, undefined, { credentials: anonymous })
    await copyArtifact({ from: ours, to: { ...theirs, client: proxied }, digest: big.digest })
    expect(up.cuts()).toBe(1)
    const down = await startCuttingProxy(theirs.client.origin, { down: 5 * MiB })
    const from = { ...theirs, client: world.client(down, undefined, { credentials: anonymous }) }
    await copyArtifact({ from, to: { ...ours, repository: 'apps/other' }, digest: big.digest })
    expect(down.cuts()).toBe(1)
    await Promise.all([up.close(), down.close()])
  })

  it('mounts between its repositories', async () => {
    const { digest } = await push(theirs)
    const result = await copyArtifact({ from: theirs, to: { ...theirs, repository: 'apps/b' }, digest })
    expect(result.transferredBytes).toBe(0)
  })
})

describe.skipIf(!hasSkopeo)('layouts and skopeo (skipped where it is not installed)', () => {
  let world: RegistryWorld

  beforeAll(async () => {
    world = await createRegistryWorld()
  })
  afterAll(() => world.close())

  it('reads the folders and tars we write, and we read the tars it writes', async () => {
    const { url } = await world.start({ authorize: async () => ({ ok: true }) })
    const end = { client: world.client({ url }, 'x'), repository: 'apps/image' }
    const rootfs = { type: 'layers', diff_ids: [] }
    const image = Buffer.from(JSON.stringify({ architecture: 'amd64', os: 'linux', config: {}, rootfs }))
    const type = 'application/vnd.oci.image.config.v1+json'
    const { digest } = await pushArtifact({
      ...end,
      artifactType: type,
      config: { mediaType: type, bytes: image },
      layers: [],
    })
    const skopeo = (...args: string[]) => run('skopeo', ['--insecure-policy', ...args], { timeout: 100_000 })
    await exportLayout(join(world.dir, 'folder'), { from: end, digest, tag: 'v1' })
    await exportLayoutTar(join(world.dir, 'ours.tar'), { from: end, digest, tag: 'v1' })
    const folder = await skopeo('inspect', '--raw', `oci:${world.dir}/folder:v1`)
    expect(JSON.parse(folder.stdout)).toMatchObject({ mediaType: mediaTypes.manifest })
    const theirs = join(world.dir, 'theirs.tar')
    await skopeo(
      'copy',
      '--preserve-digests',
      `oci-archive:${world.dir}/ours.tar:v1`,
      `oci-archive:${theirs}:v2`,
    )
    const to = { ...end, repository: 'apps/again' }
    expect(await importLayoutTar(theirs, { to, reference: 'v2', tag: 'v2' })).toMatchObject({ digest })
  })
})
