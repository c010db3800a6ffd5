import { cp, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ManifestOperation } from '@tenon/core'
import { packFolder, pushArtifact } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { createTestHost, type TestHost } from '../testing/test-host.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { soon, type JobRecord } from '../testing/job-api-server.ts'
import { INSTALL_ID, JobWorld, type TestRegistry } from '../testing/job-world.ts'

const HELLO = fileURLToPath(new URL('../../../../examples/hello/src', import.meta.url))
const SCRIPTS = { 'deploy.sh': '#!/bin/sh\nexit 0\n', 'destroy.sh': '', 'status.sh': '' }

describe('the component type script', () => {
  let world: JobWorld
  let vendor: TestRegistry
  let plugin: ManifestOperation['plugin']

  beforeAll(async () => {
    world = await JobWorld.create()
    vendor = await world.registry()
    plugin = await world.pushPlugin(vendor, 'script')
  })
  afterAll(() => world.close())

  const run = async (operation: Partial<ManifestOperation>, given: Partial<JobRecord> = {}) => {
    const api = await world.jobApi([{ plugin, ...operation }], {
      context: {
        installId: null,
        hostSocket: null,
        serverUrl: vendor.server.url,
        programs: world.programs,
        registry: { url: vendor.server.url, bearer: vendor.bearer() },
      },
      registryCredential: () => ({ registry: vendor.server.url, bearer: vendor.bearer(), expiresAt: soon() }),
      ...given,
    })
    const job = await world.startJob(api)
    const code = await job.ended
    return { code, output: job.output(), record: api.record }
  }
  const buildFrom = async (digest: string, repository: string) => {
    const artifacts = [{ name: 'source', repository: 'sources/hello', digest }]
    return run({ operation: 'build', artifacts, config: { repository } })
  }
  const source = (files: Record<string, string>) =>
    world.push(vendor, 'sources/hello', files, MEDIA_TYPES.source)

  it('builds the same digest from the same source, and another from another', async () => {
    const first = await buildFrom(await source({ ...SCRIPTS, 'app/a': '1' }), 'apps/hello/web')
    expect(first.output).toContain('build succeeded')
    expect(first.record.result).toMatchObject({
      ok: true,
      data: {
        digest: expect.stringMatching(/^sha256:/) as string,
        size: expect.any(Number) as number,
        repository: 'apps/hello/web',
        mediaType: MEDIA_TYPES.script,
      },
    })
    const again = await buildFrom(await source({ 'app/a': '1', ...SCRIPTS }), 'apps/hello/web')
    expect(again.record.result?.data).toEqual(first.record.result?.data)
    const other = await buildFrom(await source({ ...SCRIPTS, 'app/a': '2' }), 'apps/hello/web')
    expect(other.record.result?.data['digest']).not.toBe(first.record.result?.data['digest'])
  })

  it('takes what a link inside its source points to, and refuses a link to nothing', async () => {
    const folder = await world.folder({ ...SCRIPTS, 'lib/a': '1' })
    await symlink('lib', join(folder, 'app'))
    const push = async () => {
      const layers = [
        { mediaType: MEDIA_TYPES.folderLayer, bytes: await packFolder(folder, { links: 'inside' }) },
      ]
      const artifact = { client: vendor.client, repository: 'sources/hello', layers }
      return (await pushArtifact({ ...artifact, artifactType: MEDIA_TYPES.source })).digest
    }
    const linked = await buildFrom(await push(), 'apps/hello/web')
    expect(linked.output).toContain('build succeeded')
    const plain = await source({ ...SCRIPTS, 'lib/a': '1', 'app/a': '1' })
    expect(linked.record.result?.data).toEqual((await buildFrom(plain, 'apps/hello/web')).record.result?.data)
    await symlink('nowhere', join(folder, 'dangling'))
    const dangling = await buildFrom(await push(), 'apps/hello/web')
    expect(dangling.output).toMatch(/error source_refused: "dangling" is a link to nothing/)
  })

  it('refuses a source without its scripts, naming them', async () => {
    const { code, output } = await buildFrom(await source({ 'deploy.sh': 'exit 0' }), 'apps/hello/web')
    expect(code).toBe(1)
    expect(output).toMatch(/^error artifact_invalid: The source folder lacks destroy.sh, status.sh\./m)
  })

  it('says so when it may not push', async () => {
    const { code, record } = await run(
      {
        operation: 'build',
        artifacts: [{ name: 'source', repository: 'sources/hello', digest: await source(SCRIPTS) }],
        config: { repository: 'apps/hello/web' },
      },
      { registryCredential: () => ({ registry: vendor.server.url, bearer: 'forged', expiresAt: soon() }) },
    )
    expect(code).toBe(1)
    expect(record.result?.data).toEqual({ code: 'registry_failed' })
  })

  it('refuses to deploy what is no script artifact or is not named', async () => {
    const artifacts = [{ name: 'artifact', repository: 'sources/hello', digest: await source(SCRIPTS) }]
    expect((await run({ artifacts })).record.result?.data).toEqual({ code: 'registry_failed' })
    expect((await run({ artifacts: [] })).record.result?.data).toEqual({ code: 'artifact_missing' })
  })

  describe('with the hello example on a local-host', () => {
    let host: TestHost
    let hostSocket: string

    beforeAll(async () => {
      host = await createTestHost(world)
      hostSocket = await host.ensureInstall(INSTALL_ID)
    })
    afterAll(() => host.stop())

    const build = async (component: string) => {
      const folder = await world.folder({})
      await cp(join(HELLO, component), folder, { recursive: true })
      const digest = await world.pushFolder(vendor, 'sources/hello', folder, MEDIA_TYPES.source)
      const { record } = await buildFrom(digest, `apps/hello/${component}`)
      return {
        name: 'artifact',
        repository: `apps/hello/${component}`,
        digest: record.result?.data['digest'] as string,
      }
    }
    const context = (): Partial<JobRecord> => ({
      context: {
        installId: INSTALL_ID,
        hostSocket,
        serverUrl: vendor.server.url,
        programs: world.programs,
        registry: { url: vendor.server.url, bearer: vendor.bearer() },
      },
    })

    it('deploys, reports and removes both components', async () => {
      const greeter = { component: 'greeter', artifacts: [await build('greeter')] }
      const web = { component: 'web', artifacts: [await build('web')], config: { dependencies: ['greeter'] } }
      const first = await run(greeter, context())
      expect(first.output).toContain('deploy succeeded')
      const outputs = first.record.putOutputs ?? {}
      const second = await run(web, { ...context(), outputs: { greeter: outputs } })
      expect(second.output).toContain('deploy succeeded')
      const page = await fetch(second.record.putOutputs?.['url']?.value as string)
      expect(await page.text()).toContain(INSTALL_ID)

      expect(
        (await run({ ...web, operation: 'status' }, { ...context(), outputs: { greeter: outputs } })).code,
      ).toBe(0)
      expect((await run({ ...greeter, operation: 'destroy' }, context())).code).toBe(0)
      expect((await run({ ...greeter, operation: 'status' }, context())).code).toBe(1)
    }, 60_000)
  })
})
