import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { arch } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { pullArtifactLayers, unpackTarGz, type Digest } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createBuildWorld, type BuildEnd, type BuildWorld } from '../testing/build-world.ts'
import { enginePath, installed, isInstalled, pathWith, terraformEngines } from '../testing/tools.ts'
import { zipOf } from '../testing/zip.ts'

const run = promisify(execFile)
const UNSHARE = installed('unshare') ?? 'unshare'
const canUnshare = isInstalled(UNSHARE, '-rn', 'true')
const PLATFORM = `linux_${arch() === 'x64' ? 'amd64' : arch()}`

const MAIN = `
terraform {
  required_providers {
    tiny = { source = "registry.example.com/acme/tiny", version = "~> 1.0" }
  }
}
module "inner" { source = "./modules/inner" }
output "name" { value = module.inner.name }
`
const FILES = {
  'main.tf': MAIN,
  'modules/inner/main.tf': 'output "name" { value = "inner" }\n',
  'terraform.tfstate': 'secret',
}

for (const { name, program } of terraformEngines) {
  const absent = program === undefined ? ' (skipped: it is not here)' : ''
  describe.skipIf(absent !== '')(
    `builds of the type terraform_module with ${name}${absent}`,
    { timeout: 240_000 },
    () => {
      let world: BuildWorld
      let lent: string
      let PATH: string
      const build = (given: Parameters<BuildWorld['build']>[0]) =>
        world.build({ ...given, env: { PATH, ...given.env } })

      beforeAll(async () => {
        world = await createBuildWorld('terraform_module')
        lent = await world.world.folder({})
        PATH = enginePath(join(world.world.dir, 'engine'), { [name]: program })
        const mirror = join(lent, 'mirror')
        for (const version of ['1.0.0', '1.1.0', '2.0.0']) {
          const file = join(
            mirror,
            'registry.example.com/acme/tiny',
            `terraform-provider-tiny_${version}_${PLATFORM}.zip`,
          )
          await mkdir(dirname(file), { recursive: true })
          await writeFile(file, zipOf({ [`terraform-provider-tiny_v${version}`]: '#!/bin/sh\nexit 1\n' }))
        }
        await writeFile(
          join(lent, 'terraform.rc'),
          `provider_installation {\n  filesystem_mirror { path = "${mirror}" }\n}\n`,
        )
      })
      afterAll(() => world.close())

      const unpacked = async ({ data }: BuildEnd) => {
        const { layers } = await pullArtifactLayers({
          client: world.vendor.client,
          repository: 'apps/demo/part',
          digest: data['digest'] as Digest,
          artifactType: MEDIA_TYPES.terraformModule,
        })
        const folder = join(await world.world.folder({}), 'artifact')
        if (layers[0]) await unpackTarGz(await layers[0].open(), folder)
        const said = JSON.parse(await readFile(join(folder, 'tenon.json'), 'utf8')) as {
          module: string
          providers: string
        }
        return { folder, module: join(folder, said.module), providers: join(folder, said.providers) }
      }
      const lock = async (artifact: { module: string }) =>
        readFile(join(artifact.module, '.terraform.lock.hcl'), 'utf8')

      it('packs module, lock file and providers, and the same locked source gives the same digest', async () => {
        const first = await build({ files: FILES, env: { TENON_LENT_PATHS: lent } })
        expect(first.output).toContain('build succeeded')
        expect(first.output).toContain('note: the source has no .terraform.lock.hcl')
        expect(first.data).toMatchObject({
          mediaType: MEDIA_TYPES.terraformModule,
          module: 'module',
          providers: [{ source: 'registry.example.com/acme/tiny', version: '1.1.0' }],
          platform: PLATFORM,
          engine: expect.stringMatching(new RegExp(`^${name} 1\\.`)),
        })
        const artifact = await unpacked(first)
        expect(await readdir(artifact.module)).toEqual(['.terraform.lock.hcl', 'main.tf', 'modules'])
        const locked = await build({
          files: { ...FILES, '.terraform.lock.hcl': await lock(artifact) },
          env: { TENON_LENT_PATHS: lent },
        })
        expect(locked.data['digest']).toBe(first.data['digest'])
      })

      it('keeps to the version that the source locks', async () => {
        const files = { ...FILES, 'main.tf': MAIN.replace('~> 1.0', '1.0.0') }
        const old = await unpacked(await build({ files, env: { TENON_LENT_PATHS: lent } }))
        const given = {
          ...FILES,
          '.terraform.lock.hcl': (await lock(old)).replace('constraints = "1.0.0"', 'constraints = "~> 1.0"'),
        }
        const { data } = await build({ files: given, env: { TENON_LENT_PATHS: lent } })
        expect(data).toMatchObject({ providers: [{ version: '1.0.0' }] })
      })

      it.skipIf(!canUnshare)(
        `lets ${name} init work with no network (skipped where namespaces are forbidden)`,
        async () => {
          const { module, providers, folder } = await unpacked(
            await build({ files: FILES, env: { TENON_LENT_PATHS: lent } }),
          )
          const rc = join(folder, 'terraform.rc')
          await writeFile(rc, `provider_installation {\n  filesystem_mirror { path = "${providers}" }\n}\n`)
          const env = {
            PATH,
            HOME: folder,
            TF_CLI_CONFIG_FILE: rc,
            CHECKPOINT_DISABLE: '1',
          }
          const args = ['-rn', program ?? '', 'init', '-input=false', '-no-color', '-lockfile=readonly']
          const { stdout } = await run(UNSHARE, args, { cwd: module, env, timeout: 60_000 })
          expect(stdout).toContain('has been successfully initialized')
          await writeFile(rc, 'provider_installation {\n  direct {}\n}\n')
          await expect(
            run(UNSHARE, [...args.slice(0, -1), '-upgrade'], { cwd: module, env, timeout: 60_000 }),
          ).rejects.toThrow(/Failed to (?:query available|resolve) provider packages/)
        },
      )

      it('keeps modules beside it, and those fetched from elsewhere', async () => {
        const other = await world.gitRepository()
        await other.commit(
          await world.world.folder({ 'net/main.tf': 'output "cidr" { value = "10.0.0.0/8" }\n' }),
        )
        const repository = await world.gitRepository()
        await repository.commit(
          await world.world.folder({
            'infra/app/main.tf': `module "shared" { source = "../shared" }\nmodule "net" { source = "git::${other.url}//net" }\n`,
            'infra/shared/main.tf': 'output "x" { value = 1 }\n',
          }),
        )
        const source = { kind: 'git' as const, repo: repository.url, ref: 'main', directory: 'infra/app' }
        const first = await build({ source })
        expect(first.output).toContain('build succeeded')
        expect(first.data).toMatchObject({ module: 'module/infra/app', providers: [] })
        const artifact = await unpacked(first)
        expect(await readFile(join(artifact.module, '../shared/main.tf'), 'utf8')).toContain('"x"')
        expect(await readFile(join(artifact.module, '.terraform/modules/net/net/main.tf'), 'utf8')).toContain(
          'cidr',
        )
        expect(await readdir(join(artifact.module, '.terraform/modules/net'))).not.toContain('.git')
        expect((await build({ source })).data).toEqual(first.data)
      })

      it('says what is missing', async () => {
        const none = await build({
          files: FILES,
          env: { PATH: pathWith(join(world.world.dir, 'bare'), {}) },
        })
        expect(none.data).toMatchObject({ code: 'tool_missing' })
        const files = { ...FILES, 'main.tf': MAIN.replace('~> 1.0', '~> 9.0') }
        const absent = await build({ files, env: { TENON_LENT_PATHS: lent } })
        expect(absent.data).toEqual({ code: 'tool_failed' })
        expect(absent.output).toMatch(/no available\s+releases match the given\s+constraints/)
        const outside = await build({ files: { 'main.tf': 'module "x" { source = "../other" }\n' } })
        expect(outside.data).toEqual({ code: 'tool_failed' })
      })
    },
  )
}

const hasBoth = terraformEngines.every(({ program }) => program !== undefined)

describe.skipIf(!hasBoth)('where both engines are at hand (skipped where one is not)', () => {
  it('takes tofu, and terraform for a source that pins providers of its registry', async () => {
    const world = await createBuildWorld('terraform_module')
    try {
      const engines = Object.fromEntries(terraformEngines.map(({ name, program }) => [name, program]))
      const env = { PATH: enginePath(join(world.world.dir, 'engine'), engines) }
      const files = { 'main.tf': 'output "x" { value = 1 }\n' }
      expect((await world.build({ files, env })).data['engine']).toMatch(/^tofu 1\./)
      const lock = 'provider "registry.terraform.io/hashicorp/null" {\n  version = "3.2.4"\n}\n'
      const locked = await world.build({ files: { ...files, '.terraform.lock.hcl': lock }, env })
      expect(locked.data['engine']).toMatch(/^terraform 1\./)
    } finally {
      await world.close()
    }
  })
})
