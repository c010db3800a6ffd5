import { chmod, mkdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  packFolder,
  packFolderToFile,
  pullArtifactLayers,
  pushArtifact,
  sha256Digest,
  unpackTarGz,
} from '../index.ts'
import { createRegistryWorld } from '../testing/registry-world.ts'
import type { RegistryWorld } from '../testing/registry-world.ts'

const pushPull = (name: string) => ({ name, actions: ['pull' as const, 'push' as const] })

describe('an artifact made of a folder', () => {
  let world: RegistryWorld

  beforeAll(async () => {
    world = await createRegistryWorld()
  })
  afterAll(() => world.close())

  const makeFolder = async (name: string, order: string[]): Promise<string> => {
    const dir = join(world.dir, name)
    await mkdir(join(dir, 'bin'), { recursive: true })
    await mkdir(join(dir, 'empty'), { recursive: true })
    for (const file of order) await writeFile(join(dir, file), `content of ${file}`)
    await chmod(join(dir, 'bin/run'), 0o700)
    return dir
  }

  it('has the same digest whatever the order, times and owners-only modes of its files', async () => {
    const one = await makeFolder('one', ['a.txt', 'B.txt', 'bin/run'])
    const two = await makeFolder('two', ['bin/run', 'B.txt', 'a.txt'])
    await utimes(join(two, 'a.txt'), 1, 1)
    await chmod(join(two, 'a.txt'), 0o600)
    const packed = await packFolder(one)
    expect(sha256Digest(await packFolder(two))).toBe(sha256Digest(packed))
    const file = join(world.dir, 'two.tar.gz')
    expect(await packFolderToFile(two, file)).toEqual({
      digest: sha256Digest(packed),
      size: packed.byteLength,
    })
  })

  it('leaves out what is ignored', async () => {
    const dir = await makeFolder('ignoring', ['a.txt', 'B.txt', 'bin/run'])
    const whole = await packFolder(dir)
    const less = await packFolder(dir, { ignore: (path) => path === 'bin' })
    expect(less.byteLength).toBeLessThan(whole.byteLength)
  })

  it('comes back from a registry as it was', async () => {
    const registry = await world.start()
    const client = world.client(registry, world.token([pushPull('apps/hello')]))
    const layer = {
      mediaType: 'application/vnd.test.layer',
      bytes: await packFolder(await makeFolder('src', ['a.txt', 'bin/run'])),
    }
    const push = () =>
      pushArtifact({
        client,
        repository: 'apps/hello',
        artifactType: 'application/vnd.test',
        layers: [layer],
        annotations: { b: '2', a: '1' },
        tag: 'v1',
      })
    const pushed = await push()
    expect(await push()).toEqual(pushed)
    expect((await client.headManifest('apps/hello', 'v1'))?.digest).toBe(pushed.digest)

    const pulled = await pullArtifactLayers({
      client,
      repository: 'apps/hello',
      digest: pushed.digest,
      artifactType: 'application/vnd.test',
    })
    expect((await pulled.readConfig()).toString()).toBe('{}')
    const stream = await pulled.layers[0]?.open()
    if (stream === undefined) throw new Error('no layer')
    const dir = join(world.dir, 'unpacked')
    await unpackTarGz(stream, dir)
    expect(await readFile(join(dir, 'a.txt'), 'utf8')).toBe('content of a.txt')
    expect((await stat(join(dir, 'bin/run'))).mode & 0o777).toBe(0o755)
    expect((await stat(join(dir, 'empty'))).isDirectory()).toBe(true)
  })

  it('is refused when it was made for something else', async () => {
    const registry = await world.start()
    const client = world.client(registry, world.token([pushPull('apps/hello')]))
    const pushed = await pushArtifact({
      client,
      repository: 'apps/hello',
      artifactType: 'application/vnd.test',
      layers: [],
    })
    const pulling = pullArtifactLayers({
      client,
      repository: 'apps/hello',
      digest: pushed.digest,
      artifactType: 'application/vnd.other',
    })
    await expect(pulling).rejects.toMatchObject({ code: 'MANIFEST_INVALID' })
  })
})
