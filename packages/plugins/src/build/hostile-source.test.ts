import { readdir, readFile } from 'node:fs/promises'
import { pushArtifact } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HOSTILE, tarGz } from '../testing/archives.ts'
import { createBuildWorld, type BuildWorld } from '../testing/build-world.ts'

describe('a source that holds what no source may', { timeout: 240_000 }, () => {
  let world: BuildWorld

  beforeAll(async () => {
    world = await createBuildWorld('kubernetes_manifest')
  })
  afterAll(() => world.close())

  const send = async (bytes: Buffer) => {
    const { client } = world.vendor
    const layers = [{ mediaType: MEDIA_TYPES.folderLayer, bytes }]
    const artifact = { client, repository: 'tenon/sources', artifactType: MEDIA_TYPES.source, layers }
    return (await pushArtifact(artifact)).digest
  }

  it.each(HOSTILE)('is refused for %s, and nothing is written', async (_what, entries) => {
    const sent = await send(tarGz([{ name: 'fine.yaml', content: 'a: 1' }, ...entries]))
    const { data, code, jobFolder } = await world.build({ sent })
    expect(code).toBe(1)
    expect(data).toEqual({ code: 'source_refused' })
    expect(await readdir(world.world.dir)).not.toContain('escaped')
    expect(
      (await readdir(jobFolder, { recursive: true })).filter((path) => path.endsWith('fine.yaml')),
    ).toEqual([])
    await expect(readFile('/tmp/tenon-escaped')).rejects.toThrow(/ENOENT/)
  })

  it('is refused when it is cut off or no archive', async () => {
    const whole = tarGz([{ name: 'a.yaml', content: 'a'.repeat(100_000) }])
    for (const bytes of [whole.subarray(0, whole.byteLength - 40), Buffer.from('nothing of the kind')]) {
      expect((await world.build({ sent: await send(bytes) })).data).toEqual({ code: 'source_refused' })
    }
  })

  it('is refused when it was made for something else', async () => {
    const sent = await world.world.push(world.vendor, 'tenon/sources', { 'a.yaml': '' }, MEDIA_TYPES.script)
    expect((await world.build({ sent })).data).toEqual({ code: 'registry_failed' })
  })
})
