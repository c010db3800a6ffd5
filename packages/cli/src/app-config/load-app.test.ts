import fc from 'fast-check'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { stringify } from 'smol-toml'
import { describe, expect, it } from 'vitest'
import { CliError } from '../errors.ts'
import { folderWith, scripts } from '../testing/app-folder.ts'
import { temporaryFolder } from '../testing/run-cli.ts'
import { loadApp } from './load-app.ts'
import { COMPONENT_TYPES } from './schemas/components.ts'

const metadata = 'version = "v1"\ndisplay_name = "Hello, Wörld"\ndescription = "Says hello"\n'
const web =
  'name = "web"\ntype = "script"\nsource = "../src/web"\ndependencies = ["db"]\n\n[settings]\nport = 8080\n'
const db = 'name = "db"\ntype = "script"\nsource = "src/db"\n'
const good = {
  'metadata.toml': metadata,
  'components/web.toml': web,
  'components/db.toml': db,
  ...scripts('src/web'),
  ...scripts('src/db'),
}

describe('loading an app', () => {
  it('takes the name from the display name, and everything that is not its own into the component’s config', async () => {
    const { app, sources } = await loadApp(await folderWith(good))
    expect(app).toEqual({
      name: 'hello-world',
      displayName: 'Hello, Wörld',
      description: 'Says hello',
      components: [
        { name: 'db', type: 'script', dependencies: [], config: {}, source: { kind: 'folder' } },
        {
          name: 'web',
          type: 'script',
          dependencies: ['db'],
          config: { settings: { port: 8080 } },
          source: { kind: 'folder' },
        },
      ],
    })
    expect([...sources.keys()]).toEqual(['db', 'web'])
    expect(sources.get('web')).toMatch(/src\/web$/)
  })

  it('gives a service to the plugin of its image under the names that it reads', async () => {
    const image =
      'name = "img"\ntype = "container_image"\n[public]\nimage_url = "redis"\ntag = "7"\n[basic]\nport = 80\nenv_vars = { A = "1" }\n'
    const { app } = await loadApp(await folderWith({ ...good, 'components/img.toml': image }))
    const found = app.components.find(({ name }) => name === 'img')
    expect(found?.config['service']).toEqual({ port: 80, env: { A: '1' } })
    expect(found?.config['basic']).toBeUndefined()
  })

  it('takes a given name first', async () => {
    expect((await loadApp(await folderWith(good), 'other')).app.name).toBe('other')
  })

  it('falls back to the folder’s name', async () => {
    const folder = await folderWith({ ...good, 'metadata.toml': 'version = "v1"' })
    const slug = folder
      .split('/')
      .at(-1)!
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
    expect((await loadApp(folder)).app.name).toBe(slug)
  })
})

describe('where a component’s files come from', () => {
  const helm = (repo: string) => `name = "c"\ntype = "helm_chart"\nchart_name = "c"\n${repo}`
  const connected = '[connected_repo]\nrepo = "acme/shop"\ndirectory = "charts/c"\nbranch = "dev"\n'
  const checkout = (url: string) => ({
    '.git/config': `[core]\n  bare = false\n[remote "origin"]\n  url = ${url}\n`,
    'charts/c/Chart.yaml': '',
    'app/metadata.toml': metadata,
    'app/components/c.toml': helm(connected),
  })

  it.each([
    'git@github.com:acme/shop.git',
    'https://github.com/Acme/shop',
    'ssh://git@github.com/acme/shop.git',
  ])('is the local folder when the app lies in a checkout of the connected repository (%s)', async (url) => {
    const folder = await folderWith(checkout(url))
    const { app, sources } = await loadApp(join(folder, 'app'))
    expect(app.components[0]!.source).toEqual({ kind: 'folder' })
    expect(sources.get('c')).toMatch(/charts\/c$/)
  })

  it('is the repository when the app lies elsewhere', async () => {
    const folder = await folderWith(checkout('git@github.com:other/shop.git'))
    const { app, sources } = await loadApp(join(folder, 'app'))
    expect(app.components[0]!.source).toEqual({
      kind: 'git',
      repo: 'acme/shop',
      ref: 'dev',
      directory: 'charts/c',
    })
    expect(sources.size).toBe(0)
  })

  it('is the same for a worktree, whose .git is a file', async () => {
    const folder = await folderWith({
      'main/.git/config': '[remote "origin"]\n  url = https://github.com/acme/shop.git\n',
      'main/.git/worktrees/w/commondir': '../..\n',
      'w/.git': 'gitdir: ../main/.git/worktrees/w\n',
      'w/charts/c/Chart.yaml': '',
      'w/app/metadata.toml': metadata,
      'w/app/components/c.toml': helm(connected),
    })
    expect((await loadApp(join(folder, 'w/app'))).app.components[0]!.source).toEqual({ kind: 'folder' })
  })

  it('is nothing for an image or a chart repository', async () => {
    const folder = await folderWith({
      ...good,
      'components/i.toml': 'name = "i"\ntype = "container_image"\n[public]\nimage_url = "nginx"\ntag = "1"\n',
      'components/h.toml': helm('[helm_repo]\nrepo_url = "oci://x"\nchart = "c"\n'),
    })
    const { app, sources } = await loadApp(folder)
    expect(app.components.filter((c) => c.source === undefined).map((c) => c.name)).toEqual(['c', 'i'])
    expect([...sources.keys()]).toEqual(['db', 'web'])
  })
})

describe('a sandbox in Pulumi', () => {
  it('needs no version of Terraform', async () => {
    const sandbox =
      'type = "pulumi"\nruntime = "go"\n[pulumi_config]\n"nuon:cluster_name" = "x"\n[public_repo]\nrepo = "o/r"\n'
    const { app } = await loadApp(await folderWith({ ...good, 'sandbox.toml': sandbox }))
    expect(app.carried?.['sandbox.toml']).toMatchObject({ pulumi_config: { 'nuon:cluster_name': 'x' } })
  })
})

describe('any folder', () => {
  const files = [
    'metadata.toml',
    'sandbox.toml',
    'inputs.toml',
    'secrets.toml',
    'policies/p.toml',
    'actions/a.toml',
    'components/x.toml',
    'installs/i.toml',
    'x.toml',
  ]
  const anything = fc.oneof(
    fc.uint8Array({ maxLength: 60 }),
    fc.string({ maxLength: 60, unit: 'binary' }),
    fc
      .dictionary(
        fc.constantFrom(
          'name',
          'type',
          'source',
          'triggers',
          'steps',
          'vars',
          'input',
          'health',
          '__proto__',
          'a b',
        ),
        fc.jsonValue(),
        { maxKeys: 6 },
      )
      .map(toToml),
  )

  it('loads or is refused with the loader’s own error, never with another', async () => {
    const folder = await temporaryFolder()
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(fc.constantFrom(...files), anything, { minKeys: 1, maxKeys: 4 }),
        async (given) => {
          const inner = await mkdtemp(join(folder, 'app-'))
          for (const [file, content] of Object.entries(given)) {
            await mkdir(dirname(join(inner, file)), { recursive: true })
            await writeFile(join(inner, file), content)
          }
          const error: unknown = await loadApp(inner, 'any').catch((thrown: unknown) => thrown)
          expect(error instanceof Error && !(error instanceof CliError) ? error : undefined).toBeUndefined()
        },
      ),
      { numRuns: 150 },
    )
  })

  it('may have values of any shape in any field', async () => {
    const types = Object.keys(COMPONENT_TYPES)
    const folder = await temporaryFolder()
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...types),
        fc.jsonValue({ maxDepth: 3 }),
        fc.nat(),
        async (type, value, seed) => {
          const fields = Object.keys(COMPONENT_TYPES[type as 'script'].shape)
          const text = toToml({ name: 'x', source: 'src', [fields[seed % fields.length]!]: value, type })
          const inner = await mkdtemp(join(folder, 'app-'))
          await mkdir(join(inner, 'components'))
          await writeFile(join(inner, 'components/x.toml'), text)
          const error: unknown = await loadApp(inner, 'any').catch((thrown: unknown) => thrown)
          expect(error).toBeInstanceOf(CliError)
        },
      ),
      { numRuns: 150 },
    )
  })
})

function toToml(value: object): string {
  try {
    return stringify(JSON.parse(JSON.stringify(value, (_, each: unknown) => each ?? 'null')))
  } catch {
    return 'x = '
  }
}
