import type { App } from '@tenon/core'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { appWith, folderWith, METADATA, scripts } from '../testing/app-folder.ts'
import { Refusal, startApi, type Api } from '../testing/api-server.ts'
import { FULL_APP } from '../testing/full-app.ts'
import { createHome, type Home } from '../testing/run-cli.ts'
import { app, AT, build, DIGEST, install, testId } from '../testing/values.ts'

let home: Home
beforeEach(async () => {
  home = await createHome()
})

describe('tenon validate', () => {
  it('says ok, what it warns of, and what nothing acts on yet', async () => {
    const ran = await home.run(['validate', await folderWith(FULL_APP)])
    expect(ran.code).toBe(0)
    expect(ran.stdout).toContain('warning: actions/backup.toml:5:1: label is set aside: write labels\n')
    expect(ran.stdout).toContain(
      'warning: components/build.toml:8:1: kubernetes_context is kept, but nothing acts on it yet (in 6 files)\n',
    )
    expect(ran.stdout.match(/: kubernetes_context is kept/g)).toHaveLength(4)
    expect(ran.stdout).toMatch(/\nok: full \(\d+ components, 3 inputs, 2 secrets, 1 action, 3 installs\)\n$/)
  })

  it('prints mistakes with their places and ends with 2', async () => {
    const folder = await appWith({ 'sandbox.toml': 'terraform_versoin = "1"\n' })
    expect(await home.run(['validate', folder])).toMatchObject({
      code: 2,
      stdout:
        'sandbox.toml:1:1: there is no field terraform_versoin in sandbox.toml; expected terraform_version\none mistake\n',
    })
  })

  it('prints all of it as JSON', async () => {
    const good = JSON.parse((await home.run(['validate', await appWith({}), '--json'])).stdout) as object
    expect(good).toMatchObject({ ok: true, app: { name: 'shop' }, problems: [], warnings: [], idle: [] })
    const bad = await home.run(['validate', await appWith({ 'x.toml': '' }), '--json'])
    expect(bad.code).toBe(2)
    expect(JSON.parse(bad.stdout)).toMatchObject({
      ok: false,
      problems: [{ file: 'x.toml', line: 1, column: 1 }],
    })
  })
})

describe('tenon schema', () => {
  it('prints the schema of a kind, with descriptions, marks and what is required', async () => {
    const ran = await home.run(['schema', 'component-helm_chart'])
    const schema = JSON.parse(ran.stdout) as { properties: Record<string, object>; required: string[] }
    expect(schema).toMatchObject({
      $id: 'urn:tenon:app-config:component-helm_chart',
      $schema: 'http://json-schema.org/draft-07/schema#',
      additionalProperties: false,
    })
    expect(schema.required).toEqual(['name', 'type', 'chart_name'])
    expect(schema.properties['storage_driver']).toMatchObject({
      enum: ['configmap', 'secret'],
      tenon: 'acts',
    })
    expect(schema.properties['kubernetes_context']).toMatchObject({
      tenon: 'carried',
      description: expect.stringContaining('nothing acts on it yet'),
    })
  })

  it('writes all of them, and lists the kinds with their files', async () => {
    const out = join(home.home, 'schemas')
    await home.run(['schema', '--out', out])
    const written = await readdir(out)
    const listed = (await home.run(['schema'])).stdout
    expect(written).toHaveLength(listed.trim().split('\n').length - 1)
    for (const file of written)
      expect(JSON.parse(await readFile(join(out, file), 'utf8'))).toHaveProperty('$id')
    expect(listed).toMatch(/\ncomponent +components\/\*\.toml\n/)
    expect(listed).toMatch(/\ninput +inputs\/\*\.toml\n/)
  })

  it('names the nearest kind for one that is not there', async () => {
    expect(await home.run(['schema', 'metdata'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('it may be metadata'),
    })
  })
})

describe('tenon init', () => {
  it.each(['hello', 'minimal', 'kubernetes'])(
    'makes an app from the template %s that validates without a warning',
    async (template) => {
      expect((await home.run(['init', 'mine', '--template', template])).code).toBe(0)
      const ran = await home.run(['validate', 'mine', '--json'])
      expect(JSON.parse(ran.stdout)).toMatchObject({ ok: true, warnings: [], idle: [] })
    },
  )

  it('names the app after its folder, so that it is no version of another one', async () => {
    for (const [folder, name] of [
      ['My shop_2', 'my-shop-2'],
      ['deep/notes', 'notes'],
      ['…', 'hello'],
    ] as const) {
      await home.run(['init', folder])
      expect((await home.run(['validate', folder])).stdout).toContain(`ok: ${name} (`)
    }
  })

  it('refuses a folder that holds something', async () => {
    await mkdir(join(home.home, 'mine'))
    await writeFile(join(home.home, 'mine', 'x'), '')
    expect(await home.run(['init', 'mine'])).toMatchObject({
      code: 5,
      stderr: expect.stringContaining('is not empty'),
    })
  })
})

const shop = {
  'metadata.toml': METADATA,
  'components/db.toml':
    'name = "db"\ntype = "terraform_module"\nterraform_version = "1.11.3"\n[public_repo]\nrepo = "o/r"\n',
  'components/web.toml':
    'name = "web"\ntype = "script"\nsource = "src/web"\n[env]\nurl = "{{ .nuon.components.db.outputs.url }}"\nkey = "{{ .nuon.secrets.key }}"\nregion = "{{ .nuon.inputs.inputs.region }}"\n',
  'components/ui.toml':
    'name = "ui"\ntype = "container_image"\ndependencies = ["web"]\n[public]\nimage_url = "nginx"\ntag = "1"\n',
  'inputs.toml': '[[input]]\nname = "region"\n',
  'secrets.toml': '[[secret]]\nname = "key"\n',
  ...scripts('src/web'),
}

describe('an app on a server', () => {
  let api: Api
  let stored: App | undefined
  beforeEach(async () => {
    stored = undefined
    api = await startApi({
      'apps.get': () => {
        if (!stored) throw new Refusal('not_found', 'there is no such app')
        return app({ name: 'shop', version: 3 })
      },
      'apps.version': ({ params }) => ({
        number: Number(params['number']),
        digest: DIGEST,
        createdAt: AT,
        app: stored!,
      }),
      'apps.sync': ({ body }) => {
        stored = (body as { app: App }).app
        return { app: app({ name: 'shop' }), changed: true }
      },
      'sources.put': ({ body }) => ({ digest: DIGEST, layer: DIGEST, size: (body as Buffer).length }),
      'builds.create': () => ({ builds: [build({ component: 'ui' })] }),
      'installs.get': () =>
        install({
          app: 'shop',
          inputs: { region: 'eu' },
          components: [
            {
              name: 'db',
              status: 'deployed',
              artifact: DIGEST,
              drift: null,
              deployedAt: AT,
              outputs: { url: { sensitive: true } },
            },
          ],
        }),
    })
  })
  afterEach(() => api.stop())

  it('shows at a sync what is other than before', async () => {
    const folder = await folderWith(shop)
    expect((await home.run(['apps', 'sync', folder], { env: api.env })).stdout).toBe(
      'shop version 1: stored (1 component)\n',
    )
    await writeFile(join(folder, 'components/ui.toml'), shop['components/ui.toml'].replace('"1"', '"2"'))
    await writeFile(
      join(folder, 'components/db.toml'),
      `${shop['components/db.toml']}`.replace('"db"', '"pg"'),
    )
    await writeFile(
      join(folder, 'components/web.toml'),
      shop['components/web.toml'].replace('components.db', 'components.pg'),
    )
    await writeFile(join(folder, 'stack.toml'), 'name = "s"\ndescription = "d"\n')
    const ran = await home.run(['apps', 'sync', folder], { env: api.env })
    expect(ran.stdout.split('\n').slice(1, -1)).toEqual([
      '- component db',
      '+ component pg',
      '~ component ui',
      '    config.public.tag: "1" → "2"',
      '~ component web',
      '    dependencies.0: "db" → "pg"',
      '    config.env.url: "{{ .nuon.components.db.outputs.url }}" → "{{ .nuon.components.pg.outputs.url }}"',
      '+ file stack.toml',
    ])
  })

  it('shows its graph, from a folder or from the server, for people, Graphviz and programs', async () => {
    const folder = await folderWith(shop)
    const text =
      'level 1\n  db (terraform_module)\nlevel 2\n  web (script) after db\nlevel 3\n  ui (container_image) after web\n'
    expect((await home.run(['apps', 'graph', folder])).stdout).toBe(text)
    await home.run(['apps', 'sync', folder], { env: api.env })
    expect((await home.run(['apps', 'graph', 'shop'], { env: api.env })).stdout).toBe(text)
    expect((await home.run(['apps', 'graph', folder, '--dot'])).stdout).toContain('  "db" -> "web"\n')
    expect(JSON.parse((await home.run(['apps', 'graph', folder, '--json'])).stdout)).toEqual({
      app: 'shop',
      levels: [['db'], ['web'], ['ui']],
      edges: [
        { from: 'web', to: 'ui' },
        { from: 'db', to: 'web' },
      ],
    })
  })

  it('shows a component as an install renders it, without secrets', async () => {
    await home.run(['apps', 'sync', await folderWith(shop)], { env: api.env })
    const ran = await home.run(['apps', 'render', 'web', '--install', 'acme'], { env: api.env })
    expect(ran).toMatchObject({
      code: 0,
      stdout: 'env.url: <secret components.db.outputs.url>\nenv.key: <secret key>\nenv.region: eu\n',
    })
    expect(await home.run(['apps', 'render', 'wep', '--install', 'acme'], { env: api.env })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('it has: db, ui, web'),
    })
  })

  it('is built with the folders that are here, and without one for what comes from elsewhere', async () => {
    await home.run(
      ['builds', 'create', await folderWith(shop), '--component', 'ui', '--component', 'db', '--detach'],
      { env: api.env },
    )
    expect(api.callsOf('sources.put')).toHaveLength(0)
    expect(api.callsOf('builds.create')[0]?.given.body).toEqual({
      components: [
        { name: 'ui', source: null },
        { name: 'db', source: null },
      ],
    })
    expect(testId('build')).toMatch(/^bld_/)
  })
})
