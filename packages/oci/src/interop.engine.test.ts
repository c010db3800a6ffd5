import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseManifest } from './index.ts'
import { createRegistryWorld } from './testing/registry-world.ts'
import type { RegistryWorld } from './testing/registry-world.ts'

const run = promisify(execFile)
const TOOLS = process.env['TENON_TEST_TOOLS'] ?? join(homedir(), '.cache/tenon-tools/bin')
const isRoot = process.getuid?.() === 0
const has = (name: string) => spawnSync(name, ['--version'], { timeout: 60_000 }).status === 0

describe('other tools, by the token flow', { timeout: 180_000 }, () => {
  let world: RegistryWorld
  let registry: Awaited<ReturnType<RegistryWorld['start']>>
  let host: string
  let authfile: string

  beforeAll(async () => {
    world = await createRegistryWorld()
    registry = await world.start()
    host = new URL(registry.url).host
    authfile = join(world.dir, 'auth.json')
    const auth = Buffer.from(`tenon:${token()}`).toString('base64')
    await writeFile(authfile, JSON.stringify({ auths: { [host]: { auth } } }))
  })
  afterAll(() => world.close())

  const token = () => world.token([{ name: '*', actions: ['pull', 'push'] }])
  const client = () => world.client(registry, token())

  describe.each(['buildah', 'podman'])('%s (skipped where it is not installed, or without root)', (name) => {
    it.skipIf(!isRoot || !has(name))('pushes an image to us and pulls it back', async () => {
      const folder = join(world.dir, name)
      await mkdir(join(folder, 'home'), { recursive: true })
      await writeFile(join(folder, 'Dockerfile'), 'FROM scratch\nCOPY file /file\n')
      await writeFile(join(folder, 'file'), name)
      const settings = {
        'policy.json': '{"default":[{"type":"insecureAcceptAnything"}]}',
        'containers.conf': '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n',
        'storage.conf': `[storage]\ndriver = "vfs"\ngraphroot = "${folder}/root"\nrunroot = "${folder}/run"\n`,
      }
      for (const [file, text] of Object.entries(settings)) await writeFile(join(folder, file), text)
      const env = {
        PATH: process.env['PATH'],
        HOME: join(folder, 'home'),
        TMPDIR: join(folder, 'home'),
        XDG_RUNTIME_DIR: join(folder, 'home'),
        CONTAINERS_CONF: join(folder, 'containers.conf'),
        CONTAINERS_STORAGE_CONF: join(folder, 'storage.conf'),
      }
      const call = (...args: string[]) => run(name, args, { env, cwd: folder, timeout: 150_000 })
      const policy = ['--signature-policy', join(folder, 'policy.json')]
      const image = `${host}/apps/${name}:v1`
      const access = ['--authfile', authfile, '--tls-verify=false', ...policy]
      await call('build', '--isolation=chroot', ...policy, '--tag', image, '.')
      await call('push', ...access, image)
      const pushed = await client().getManifest(`apps/${name}`, 'v1')
      expect(parseManifest(pushed.mediaType, pushed.bytes).layers).toHaveLength(1)
      await call('rmi', image)
      const { stdout } = await call('pull', '--quiet', ...access, image)
      const inspected = await call(
        'inspect',
        ...(name === 'buildah' ? ['--type', 'image'] : []),
        stdout.trim(),
      )
      expect(inspected.stdout).toContain(pushed.digest)
      await call('rmi', '--all', '--force')
      await expect(
        call('pull', '--authfile', '/dev/null', '--tls-verify=false', ...policy, image),
      ).rejects.toThrow(/unauthorized|authentication required|denied|auth/i)
    })
  })

  describe.each(['helm3', 'helm4'])('%s (skipped where scripts/test-tools.mjs did not run)', (name) => {
    const program = join(TOOLS, name)

    it.skipIf(!existsSync(program))('pushes a chart to us and pulls it back', async () => {
      const folder = join(world.dir, name)
      await mkdir(join(folder, 'web/templates'), { recursive: true })
      await writeFile(join(folder, 'web/Chart.yaml'), 'apiVersion: v2\nname: web\nversion: 1.0.0+build.1\n')
      await writeFile(
        join(folder, 'web/templates/a.yaml'),
        'kind: ConfigMap\napiVersion: v1\nmetadata: { name: a }\n',
      )
      const env = {
        PATH: process.env['PATH'],
        HOME: folder,
        HELM_REGISTRY_CONFIG: authfile,
        KUBECONFIG: '/dev/null',
      }
      const call = (...args: string[]) => run(program, args, { env, cwd: folder, timeout: 150_000 })
      await call('package', 'web')
      await call('push', 'web-1.0.0+build.1.tgz', `oci://${host}/charts/${name}`, '--plain-http')
      const info = await client().getManifest(`charts/${name}/web`, '1.0.0_build.1')
      const config = parseManifest(info.mediaType, info.bytes).config
      expect(config?.mediaType).toBe('application/vnd.cncf.helm.config.v1+json')
      const address = `oci://${host}/charts/${name}/web`
      await call('pull', address, '--version', '1.0.0+build.1', '--plain-http', '-d', join(folder))
      const pulled = await readFile(join(folder, 'web-1.0.0+build.1.tgz'))
      const layer = parseManifest(info.mediaType, info.bytes).layers[0]
      expect(pulled.byteLength).toBe(layer?.size)
      const shown = await call('template', 'x', address, '--version', '1.0.0+build.1', '--plain-http')
      expect(shown.stdout).toContain('kind: ConfigMap')
      const nobody = { ...env, HELM_REGISTRY_CONFIG: join(folder, 'none.json') }
      const refused = run(program, ['pull', address, '--version', '1.0.0+build.1', '--plain-http'], {
        env: nobody,
        cwd: folder,
      })
      await expect(refused).rejects.toThrow(/401|unauthorized|denied/i)
    })
  })
})
