import { execFile, spawnSync } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mediaTypes, sha256Digest } from './index.ts'
import { createRegistryWorld } from './testing/registry-world.ts'
import type { RegistryWorld } from './testing/registry-world.ts'

const run = promisify(execFile)
const hasSkopeo = spawnSync('skopeo', ['--version']).status === 0

describe.skipIf(!hasSkopeo)('skopeo (skipped where it is not installed)', () => {
  let world: RegistryWorld
  let registry: Awaited<ReturnType<RegistryWorld['start']>>

  beforeAll(async () => {
    world = await createRegistryWorld()
    registry = await world.start()
  })
  afterAll(() => world.close())

  const skopeo = (...args: string[]) => run('skopeo', ['--insecure-policy', ...args], { timeout: 100_000 })

  /** The smallest image there can be, as an OCI layout folder. */
  const writeLayout = async (dir: string) => {
    await mkdir(join(dir, 'blobs/sha256'), { recursive: true })
    const put = async (bytes: Buffer, mediaType: string) => {
      const digest = sha256Digest(bytes)
      await writeFile(join(dir, 'blobs/sha256', digest.slice(7)), bytes)
      return { mediaType, digest, size: bytes.byteLength }
    }
    const layer = await put(Buffer.alloc(1024), 'application/vnd.oci.image.layer.v1.tar')
    const rootfs = { type: 'layers', diff_ids: [layer.digest] }
    const image = Buffer.from(JSON.stringify({ architecture: 'amd64', os: 'linux', config: {}, rootfs }))
    const config = await put(image, 'application/vnd.oci.image.config.v1+json')
    const body = { schemaVersion: 2, mediaType: mediaTypes.manifest, config, layers: [layer] }
    const manifest = await put(Buffer.from(JSON.stringify(body)), mediaTypes.manifest)
    const annotations = { 'org.opencontainers.image.ref.name': 'v1' }
    const index = { schemaVersion: 2, manifests: [{ ...manifest, annotations }] }
    await writeFile(join(dir, 'index.json'), JSON.stringify(index))
    await writeFile(join(dir, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }))
    return manifest.digest
  }

  it('pushes to us by the token flow and pulls the same digest back', async () => {
    const token = world.token([{ name: 'apps/image', actions: ['pull', 'push'] }])
    const host = new URL(registry.url).host
    const authfile = join(world.dir, 'auth.json')
    const auth = Buffer.from(`tenon:${token}`).toString('base64')
    await writeFile(authfile, JSON.stringify({ auths: { [host]: { auth } } }))
    const digest = await writeLayout(join(world.dir, 'layout'))
    const remote = `docker://${host}/apps/image:v1`
    const push = [
      '--authfile',
      authfile,
      '--preserve-digests',
      '--dest-tls-verify=false',
      `oci:${world.dir}/layout:v1`,
      remote,
    ]
    await skopeo('copy', ...push)
    expect((await world.client(registry, token).headManifest('apps/image', 'v1'))?.digest).toBe(digest)
    const pull = ['--authfile', authfile, '--src-tls-verify=false', remote, `dir:${world.dir}/pulled`]
    await skopeo('copy', ...pull)
    expect(sha256Digest(await readFile(join(world.dir, 'pulled/manifest.json')))).toBe(digest)
    await expect(skopeo('copy', '--src-tls-verify=false', remote, `dir:${world.dir}/nobody`)).rejects.toThrow(
      /unauthorized|authentication required|Credentials/i,
    )
  })
})
