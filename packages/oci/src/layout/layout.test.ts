import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { packTar } from 'modern-tar'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  exportLayout,
  exportLayoutTar,
  importLayout,
  importLayoutTar,
  mediaTypes,
  pushArtifact,
  sha256Digest,
} from '../index.ts'
import type { CopyEnd, Digest } from '../index.ts'
import { allFiles, createRegistryWorld } from '../testing/registry-world.ts'
import type { RegistryWorld } from '../testing/registry-world.ts'

describe('an OCI image layout', () => {
  let world: RegistryWorld
  let from: CopyEnd
  let digest: Digest
  let signature: Digest
  const layer = randomBytes(100_000)

  beforeAll(async () => {
    world = await createRegistryWorld()
    from = await fresh()
    const push = (more: object) =>
      pushArtifact({
        ...from,
        client: world.client({ url: from.client.origin }, 'x'),
        artifactType: 'x/app',
        layers: [],
        ...more,
      })
    const made = await push({ layers: [{ mediaType: 'x/z', bytes: layer }] })
    const index = Buffer.from(
      JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.index, manifests: [made] }),
    )
    const root = await from.client.putManifest('a', 'all', mediaTypes.index, index)
    digest = root.digest
    signature = (await push({ artifactType: 'x/signature', subject: root })).digest
  })
  afterAll(() => world.close())

  const fresh = async (): Promise<CopyEnd> => {
    const { url } = await world.start({ authorize: async () => ({ ok: true }) })
    return { client: world.client({ url }, 'x'), repository: 'a' }
  }
  const folder = (name: string) => join(world.dir, name)

  it('is written as a folder and read into another registry, referrers included', async () => {
    const dir = folder('whole')
    await exportLayout(dir, { from, digest, tag: 'v1', referrers: true })
    expect(await readdir(dir)).toEqual(['blobs', 'index.json', 'oci-layout'])
    const entries = JSON.parse(await readFile(join(dir, 'index.json'), 'utf8')) as { manifests: object[] }
    expect(entries.manifests).toHaveLength(2)
    const to = await fresh()
    const result = await importLayout(dir, { to, reference: 'v1', tag: 'v1', referrers: true })
    expect(result).toMatchObject({ digest, manifests: 3 })
    expect((await to.client.headManifest('a', 'v1'))?.digest).toBe(digest)
    expect(await to.client.listReferrers('a', digest)).toMatchObject([{ digest: signature }])
    const again = await exportLayout(dir, { from, digest, tag: 'v1', referrers: true })
    expect(again.transferredBytes).toBe(0)
    expect(await importLayout(dir, { to })).toMatchObject({ digest, transferredBytes: 0 })
  })

  it('is written as a tar and read back, and leaves nothing else', async () => {
    await mkdir(folder('tars'))
    const file = join(folder('tars'), 'app.tar')
    await exportLayoutTar(file, { from, digest, tag: 'v1' })
    expect(await readdir(folder('tars'))).toEqual(['app.tar'])
    const to = await fresh()
    const temporaryFolder = folder('tars')
    expect(await importLayoutTar(file, { to, temporaryFolder })).toMatchObject({ digest })
    expect(await readdir(folder('tars'))).toEqual(['app.tar'])
  })

  it('asks which entry is meant when there are several, and says what there is', async () => {
    const dir = folder('several')
    await exportLayout(dir, { from, digest, tag: 'v1' })
    await exportLayout(dir, { from, digest: signature, tag: 'v2' })
    const to = await fresh()
    await expect(importLayout(dir, { to })).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await expect(importLayout(dir, { to, reference: 'v3' })).rejects.toThrow(/v1, v2/)
    expect(await importLayout(dir, { to, reference: signature })).toMatchObject({ digest: signature })
  })

  const damage: [string, string, (dir: string, blob: string) => Promise<unknown>][] = [
    ['that says nothing', 'ARCHIVE_REFUSED', (dir) => rm(join(dir, 'oci-layout'))],
    [
      'of another version',
      'ARCHIVE_REFUSED',
      (dir) => writeFile(join(dir, 'oci-layout'), '{"imageLayoutVersion":"2.0.0"}'),
    ],
    [
      'whose index is no index',
      'MANIFEST_INVALID',
      (dir) => writeFile(join(dir, 'index.json'), '{"schemaVersion":2}'),
    ],
    [
      'with a changed blob',
      'DIGEST_MISMATCH',
      (_dir, blob) => writeFile(blob, randomBytes(layer.byteLength)),
    ],
    ['with a shorter blob', 'SIZE_MISMATCH', (_dir, blob) => writeFile(blob, 'x')],
    ['with a missing blob', 'NOT_FOUND', (_dir, blob) => rm(blob)],
    [
      'with a link instead of a blob',
      'ARCHIVE_REFUSED',
      async (_dir, blob) => {
        await rm(blob)
        await symlink('/etc/hostname', blob)
      },
    ],
  ]
  it.each(damage)('%s is refused with %s, and nothing is tagged', async (what, code, harm) => {
    const dir = folder(`bad ${what}`)
    await exportLayout(dir, { from, digest, tag: 'v1' })
    await harm(dir, join(dir, 'blobs/sha256', sha256Digest(layer).slice(7)))
    const to = await fresh()
    await expect(importLayout(dir, { to, tag: 'v1' })).rejects.toMatchObject({ code })
    expect(await to.client.headManifest('a', 'v1')).toBeUndefined()
  })

  it('as a tar with a name that leads out is refused, and nothing is written', async () => {
    await mkdir(folder('evil'))
    const bytes = await packTar([{ header: { name: '../evil', size: 1, type: 'file' }, body: 'x' }])
    const file = join(folder('evil'), 'evil.tar')
    await writeFile(file, bytes)
    const importing = importLayoutTar(file, { to: await fresh(), temporaryFolder: folder('evil') })
    await expect(importing).rejects.toMatchObject({ code: 'ARCHIVE_REFUSED' })
    expect(await allFiles(folder('evil'))).toEqual([file])
  })
})
