import { createFileStorage } from '@tenon/oci'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startApi, type Api } from '../testing/api-server.ts'
import { createHome, temporaryFolder, type Home } from '../testing/run-cli.ts'
import { build, testId } from '../testing/values.ts'

const DIGEST = `sha256:${'a'.repeat(64)}`
const IMAGE = `sha256:${'b'.repeat(64)}`
const BUILD = testId('build')

const summary = {
  id: BUILD,
  app: 'hello',
  component: 'web',
  repository: 'apps/hello/web',
  digest: DIGEST,
  createdAt: '2026-11-15T00:00:00.000Z',
  installs: 1,
}

let api: Api
let home: Home

beforeEach(async () => {
  home = await createHome()
  api = await startApi({
    'artifacts.list': () => ({ items: [summary], next: null }),
    'artifacts.get': () => ({
      ...summary,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      artifactType: 'application/vnd.tenon.script.v1',
      bytes: 3000,
      tree: [
        {
          digest: DIGEST,
          mediaType: 'm',
          artifactType: null,
          size: 500,
          depth: 0,
          platform: null,
          blobs: [{ digest: IMAGE, mediaType: 'application/x', size: 2500 }],
        },
      ],
      closure: [{ image: 'redis:7', digest: IMAGE, isThere: false }],
      signatures: [
        { digest: IMAGE, predicateType: 'https://slsa.dev/provenance/v1', keyId: 'key_1', isValid: false },
      ],
      installed: [{ install: 'acme', component: 'web', deployedAt: null }],
    }),
    'registry.usage': () => ({
      repositories: [{ name: 'apps/hello/web', tags: 0, manifests: 3, blobs: 5, bytes: 2048 }],
      contents: 8,
      bytes: 2048,
      uploads: { count: 0, bytes: 0 },
    }),
    'registry.gc': ({ body }) => ({
      manifests: 1,
      blobs: 2,
      contents: 3,
      uploads: 0,
      bytesFreed: 1024,
      dryRun: (body as { dryRun: boolean }).dryRun,
    }),
    'builds.retry': () => build({ status: 'queued', finishedAt: null, artifact: null }),
  })
})
afterEach(() => api.stop())

const run = (...args: string[]) => home.run(args, { env: api.env })

describe('artifacts', () => {
  it('are listed', async () => {
    const { code, stdout } = await run('artifacts', 'list', '--app', 'hello', '--component', 'web')
    expect([code, stdout]).toEqual([0, expect.stringMatching(/hello +web +sha256:aaaaaaaaaaaa +1/)])
    expect(api.callsOf('artifacts.list')[0]?.given.query).toMatchObject({ app: 'hello', component: 'web' })
  })

  it('that are not there are not called the first to come', async () => {
    api.handlers['artifacts.list'] = () => ({ items: [], next: null })
    const list = async (...only: string[]) =>
      (await home.run(['artifacts', 'list', ...only], { env: api.env })).stderr
    expect(await list()).toContain('no artifacts yet; next: tenon builds create DIR')
    expect(await list('--component', 'x')).toContain('no artifacts like that; next: tenon artifacts list')
  })

  it('are shown with tree, closure and signatures, what is wrong with them in capitals', async () => {
    const { stdout } = await run('artifacts', 'show', BUILD)
    expect(stdout).toContain(`manifests\n  ${DIGEST} (500 B, 1 blob)\n    ${IMAGE} application/x, 2.4 kB\n`)
    expect(stdout).toContain(`images it needs\n  redis:7 ${IMAGE} (MISSING)\n`)
    expect(stdout).toContain('signatures\n  https://slsa.dev/provenance/v1 by key_1 (NOT VALID)\n')
    expect(stdout).toMatch(/runs in +acme/)
    expect(JSON.parse((await run('--json', 'artifacts', 'show', BUILD)).stdout)).toMatchObject({
      digest: DIGEST,
    })
  })

  it('are built again after a failure', async () => {
    const { code, stdout } = await run('builds', 'retry', BUILD)
    expect([code, stdout]).toEqual([0, expect.stringContaining('is queued')])
  })
})

describe('the registry', () => {
  it('says what it holds', async () => {
    const { stdout, stderr } = await run('registry', 'usage')
    expect(stdout).toMatch(/apps\/hello\/web +3 +5 +0 +2\.0 kB/)
    expect(stderr).toContain('on disk, each content once: 2.0 kB in 8 files')
  })

  it('is cleaned when somebody says yes, or only looked at', async () => {
    const dry = await run('registry', 'gc', '--dry-run')
    expect(dry.stdout).toBe('would remove 1 manifest, 2 blobs, 3 files, 0 stale uploads; would free 1.0 kB\n')
    const wet = await run('registry', 'gc', '--yes', '--grace-hours', '48')
    expect(wet.stdout).toMatch(/^removed 1 manifest/)
    expect(api.callsOf('registry.gc').map(({ given }) => given.body)).toEqual([
      { dryRun: true, graceHours: 24 },
      { dryRun: false, graceHours: 48 },
    ])
    expect((await run('registry', 'gc')).code).not.toBe(0)
    expect(api.callsOf('registry.gc')).toHaveLength(2)
  })

  it('of an install is cleaned in its folder, without a server', async () => {
    const dir = join(await temporaryFolder(), 'registry')
    const storage = await createFileStorage(dir)
    await storage.createUpload('apps/web')
    const { code, stdout } = await home.run(['registry', 'gc', '--dir', dir, '--yes'])
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^removed 0 manifests, 0 blobs, 0 files, 0 stale/),
    ])
  })
})
