import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { MEDIA_TYPES } from '@tenon/protocol'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createDeployWorld, type DeployWorld } from '../testing/deploy-world.ts'

vi.setConfig({ testTimeout: 180_000 })

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../../../..', import.meta.url))

/** `tenon plugins init`, as the guide has it, and what it makes run in a real job. */
describe('a plugin of the vendor’s own', () => {
  let deploys: DeployWorld
  let cli: string

  beforeAll(async () => {
    deploys = await createDeployWorld({ types: ['script'] })
    cli = join(deploys.world.dir, 'cli.mjs')
    await build({
      entryPoints: [join(ROOT, 'packages/cli/src/main.ts')],
      outfile: cli,
      bundle: true,
      platform: 'node',
      format: 'esm',
      logLevel: 'error',
      banner: { js: "import { createRequire as r } from 'node:module'; const require = r(import.meta.url);" },
    })
  }, 120_000)
  afterAll(() => deploys?.close())

  const init = (...args: string[]) =>
    run(process.execPath, [cli, 'plugins', 'init', ...args], {
      cwd: deploys.world.dir,
      env: { PATH: process.env['PATH'], HOME: deploys.world.dir },
    })
  const deploy = async (folder: string) => {
    const repository = 'apps/shop/greet'
    const digest = await deploys.world.pushFolder(deploys.registry, repository, folder, MEDIA_TYPES.plugin)
    deploys.plugins.set('greet', { name: 'greet', repository, digest })
    return deploys.run('deploy', {
      component: 'greeting',
      type: 'greet' as never,
      config: { greeting: 'hello, {{ .tenon.install.name }}' },
      more: { dependencies: [] },
    })
  }

  it.each([
    ['as shell scripts', ['--shell'], ''],
    ['in TypeScript', ['--typescript'], 'plugin'],
  ])('is begun %s, and deploys as it is', async (_how, options, entry) => {
    const folder = join(deploys.world.dir, `greet${options[0]}`)
    await init('greet', folder, ...options)
    if (entry !== '') {
      const outfile = join(folder, 'plugin/main.mjs')
      await build({
        entryPoints: [join(folder, 'src/main.ts')],
        outfile,
        bundle: true,
        platform: 'node',
        format: 'esm',
      })
    }
    const done = await deploy(join(folder, entry))
    expect(done).toMatchObject({ ok: true, message: 'said hello, acme' })
    expect(done.outputs).toEqual({ message: { value: 'hello, acme', sensitive: false } })
    await expect(init('greet', folder, ...options)).rejects.toThrow(/is not empty/)
  })

  it('is refused under a name that no component type can have', async () => {
    await expect(init('Not A Name')).rejects.toThrow(/is no name for a component type/)
  })
})
