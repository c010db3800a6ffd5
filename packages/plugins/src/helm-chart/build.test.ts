import { execFile } from 'node:child_process'
import { createServer, type Server } from 'node:http'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { packFolder, pullArtifactLayers, sha256Digest, unpackTarGz, type Digest } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createBuildWorld, type BuildEnd, type BuildWorld } from '../testing/build-world.ts'
import { chartFiles, deployment, smallChart } from '../testing/charts.ts'
import { bomb, HOSTILE, tarGz } from '../testing/archives.ts'
import { closeServer, listen } from '../testing/git-server.ts'
import { hostOf, pushImage } from '../testing/images.ts'
import type { TestRegistry } from '../testing/job-world.ts'
import { pathWith, testTool } from '../testing/tools.ts'

const run = promisify(execFile)
const helm = testTool('helm4') ?? testTool('helm3')

describe('the component type helm_chart', { timeout: 240_000 }, () => {
  let world: BuildWorld
  let images: TestRegistry
  let server: Server
  let serverUrl: string
  const served = new Map<string, Buffer>()
  const digests: Record<string, string> = {}
  let noHelm: string
  let withHelm: string

  beforeAll(async () => {
    world = await createBuildWorld('helm_chart')
    images = await world.world.registry({ authorize: async () => ({ ok: true }) })
    for (const tag of ['1.16', 'v2', 'v3']) digests[tag] = await pushImage(images, 'acme/web', tag)
    server = createServer((request, response) => {
      const body = served.get(request.url ?? '')
      response.writeHead(body === undefined ? 404 : 200).end(body)
    })
    serverUrl = `http://127.0.0.1:${await listen(server)}`
    noHelm = pathWith(join(world.world.dir, 'no-helm'), {})
    withHelm = pathWith(join(world.world.dir, 'with-helm'), { helm })
  })
  afterAll(async () => {
    await closeServer(server)
    await world.close()
  })

  const image = (tag: string) => `${hostOf(images)}/acme/web:${tag}`
  const values = (more = '') => ({
    values_file: [{ contents: `image:\n  repository: ${hostOf(images)}/acme/web\n${more}` }],
  })
  const archive = async (name: string, files: Record<string, string>) =>
    packFolder(await world.world.folder(files), { prefix: name })
  const serveChart = async (name: string, versions: string[], imageName: string) => {
    const entries = []
    for (const version of versions) {
      const bytes = await archive(name, smallChart(name, version, imageName))
      served.set(`/charts/${name}-${version}.tgz`, bytes)
      entries.push({
        name,
        version,
        urls: [`charts/${name}-${version}.tgz`],
        digest: sha256Digest(bytes).slice(7),
      })
    }
    served.set('/index.yaml', Buffer.from(JSON.stringify({ apiVersion: 'v1', entries: { [name]: entries } })))
  }
  const unpacked = async ({ data }: BuildEnd) => {
    const pulled = await pullArtifactLayers({
      client: world.vendor.client,
      repository: 'apps/demo/part',
      digest: data['digest'] as Digest,
      artifactType: MEDIA_TYPES.helmConfig,
    })
    const folder = join(await world.world.folder({}), 'chart')
    const [layer] = pulled.layers
    if (layer) await unpackTarGz(await layer.open(), folder)
    return {
      folder,
      manifest: pulled.manifest,
      config: JSON.parse(String(await pulled.readConfig())) as unknown,
    }
  }

  it("packs Helm's own artifact, the same from the same source, without helm", async () => {
    const given = { files: chartFiles(), component: values(), env: { PATH: noHelm } }
    const first = await world.build(given)
    expect(first.output).toContain('build succeeded')
    expect(first.output).toContain('warning: this job has no helm')
    expect(first.data).toMatchObject({
      mediaType: MEDIA_TYPES.helmConfig,
      chart: { name: 'web', version: '1.2.3' },
      closureFrom: 'static',
      closure: [{ image: image('1.16'), digest: digests['1.16'] }],
    })
    expect((await world.build(given)).data).toEqual(first.data)
    const tagged = await world.vendor.client.headManifest('apps/demo/part', '1.2.3')
    expect(tagged?.digest).toBe(first.data['digest'])
    const { folder, manifest, config } = await unpacked(first)
    expect(config).toEqual({
      name: 'web',
      version: '1.2.3',
      description: 'a test',
      apiVersion: 'v2',
      appVersion: '1.16',
    })
    expect(manifest.layers).toMatchObject([
      {
        mediaType: MEDIA_TYPES.helmChart,
        annotations: { 'org.opencontainers.image.title': 'web-1.2.3.tgz' },
      },
    ])
    expect(manifest.annotations?.['dev.tenon.closure']).toBe(JSON.stringify(first.data['closure']))
    expect(await readdir(join(folder, 'web'))).toEqual([
      '.helmignore',
      'Chart.yaml',
      'templates',
      'values.yaml',
    ])
    const copied = await world.vendor.client.headManifest('apps/demo/part', digests['1.16'] ?? '')
    expect(copied).toBeDefined()
  })

  describe.skipIf(helm === undefined)('with helm (skipped where scripts/test-tools.mjs did not run)', () => {
    it('finds the images of the chart as it is rendered with the given values', async () => {
      const files = chartFiles({
        'templates/more.yaml': `{{- if .Values.more }}\n${deployment(image('v3'), 'more')}{{- end }}`,
      })
      const off = await world.build({ files, component: values('  tag: v2\n'), env: { PATH: withHelm } })
      expect(off.data).toMatchObject({
        closureFrom: 'rendered',
        closure: [{ image: image('v2'), digest: digests['v2'] }],
      })
      const on = await world.build({
        files,
        component: { ...values('  tag: v2\n'), values: { more: true, 'image.tag': '1.16' } },
        images: [image('v2')],
        env: { PATH: withHelm },
      })
      expect(on.data['closure']).toEqual([
        { image: image('1.16'), digest: digests['1.16'] },
        { image: image('v2'), digest: digests['v2'] },
        { image: image('v3'), digest: digests['v3'] },
      ])
    })

    it('leaves to the install what only the install knows, and says so', async () => {
      const component = {
        values_file: [
          {
            contents: `{{ if .nuon.inputs.inputs.big }}\nreplicas: 3\n{{ end }}\nimage:\n  repository: {{ .nuon.components.api.outputs.image }}\n  tag: v1\n`,
          },
        ],
      }
      const { data, output } = await world.build({ files: chartFiles(), component, env: { PATH: withHelm } })
      expect(data).toMatchObject({ closureFrom: 'rendered', closure: [] })
      expect(output).toMatch(
        /note: the image of web\/templates\/deployment.yaml: Deployment web, .*containers\[0\].image is known only in the install/,
      )
    })

    it('names the file and the place of an image that cannot be pinned', async () => {
      const { data, output } = await world.build({
        files: chartFiles(),
        component: values('  tag: absent\n'),
        env: { PATH: withHelm },
      })
      expect(data).toEqual({ code: 'image_unresolved' })
      expect(output).toContain(
        'named by web/templates/deployment.yaml: Deployment web, spec.template.spec.containers[0].image',
      )
    })

    it('falls back to what the files name when helm cannot render', async () => {
      const files = chartFiles({ 'templates/broken.yaml': '{{ required "x is needed" .Values.x }}' })
      const { data, output } = await world.build({ files, component: values(), env: { PATH: withHelm } })
      expect(output).toMatch(/warning: helm cannot render the chart .*x is needed/)
      expect(data).toMatchObject({ closureFrom: 'static', closure: [{ image: image('1.16') }] })
    })
  })

  describe.each(['helm3', 'helm4'] as const)(
    '%s (skipped where scripts/test-tools.mjs did not run)',
    (name) => {
      it.skipIf(testTool(name) === undefined)('pulls and renders what was built', async () => {
        const built = await world.build({ files: chartFiles(), component: values(), env: { PATH: noHelm } })
        const home = await world.world.folder({})
        const auth = Buffer.from(`tenon:${world.vendor.bearer()}`).toString('base64')
        const config = join(home, 'registry.json')
        await writeFile(config, JSON.stringify({ auths: { [hostOf(world.vendor)]: { auth } } }))
        const env = {
          HOME: home,
          HELM_REGISTRY_CONFIG: config,
          PATH: process.env['PATH'],
          KUBECONFIG: '/dev/null',
        }
        const program = testTool(name) ?? ''
        const address = `oci://${hostOf(world.vendor)}/apps/demo/part`
        await run(program, ['pull', address, '--version', '1.2.3', '--plain-http', '--untar', '-d', home], {
          env,
          timeout: 60_000,
        })
        expect(await readFile(join(home, 'web/Chart.yaml'), 'utf8')).toBe(chartFiles()['Chart.yaml'])
        const rendered = await run(
          program,
          ['template', 'x', address, '--version', '1.2.3', '--plain-http', '--set', 'image.repository=a/b'],
          { env, timeout: 60_000 },
        )
        expect(rendered.stdout).toContain('image: "a/b:1.16"')
        expect(built.data['digest']).toBeDefined()
      })
    },
  )

  describe('with dependencies', () => {
    const parent = (dependencies: string, more: Record<string, string> = {}) =>
      chartFiles({
        'Chart.yaml': `apiVersion: v2\nname: web\nversion: 2.0.0\nappVersion: v2\ndependencies:\n${dependencies}`,
        ...more,
      })
    const build = (files: Record<string, string>, more: object = {}) =>
      world.build({ files, component: values(), env: { PATH: noHelm }, ...more })

    it('fetches the newest that fits from a chart repository, or the locked one, and finds their images', async () => {
      await serveChart('cache', ['1.0.0', '1.4.0', '1.5.0-rc1', '2.0.0'], image('v3'))
      const wish = `  - { name: cache, version: ">=1.0.0 <2.0.0", repository: "${serverUrl}" }\n`
      const newest = await build(parent(wish))
      expect(newest.data).toMatchObject({
        dependencies: [{ name: 'cache', version: '1.4.0', from: `${serverUrl}/charts/cache-1.4.0.tgz` }],
        closure: [{ image: image('v2') }, { image: image('v3'), digest: digests['v3'] }],
      })
      expect(await readdir(join((await unpacked(newest)).folder, 'web/charts'))).toEqual(['cache-1.4.0.tgz'])
      const lock = `dependencies:\n- name: cache\n  repository: ${serverUrl}\n  version: 1.0.0\n`
      const locked = await build(parent(wish, { 'Chart.lock': lock }))
      expect(locked.data).toMatchObject({ dependencies: [{ version: '1.0.0' }] })
      const none = await build(parent(`  - { name: cache, version: "^3", repository: "${serverUrl}" }\n`))
      expect(none.data).toEqual({ code: 'dependency_missing' })
      expect(none.output).toMatch(/none of its versions fits; there are 1.0.0, 1.4.0/)
    })

    it('packs those of the same source, deep, and keeps those in charts/', async () => {
      const sub = (name: string, dependencies = '') =>
        `apiVersion: v2\nname: ${name}\nversion: 0.1.0\n${dependencies}`
      const repository = await world.gitRepository()
      const files = {
        ...Object.fromEntries(
          Object.entries(
            parent(
              '  - { name: common, version: 0.1.0, repository: "file://../common" }\n  - { name: kept, version: 1.x.x, repository: "https://127.0.0.1:9" }\n',
              {
                'charts/kept/Chart.yaml': sub('kept'),
              },
            ),
          ).map(([path, text]) => [`charts/web/${path}`, text]),
        ),
        'charts/common/Chart.yaml': sub(
          'common',
          'dependencies:\n  - { name: deep, version: 0.1.0, repository: "file://../deep" }\n',
        ),
        'charts/deep/Chart.yaml': sub('deep'),
        'charts/deep/templates/pod.yaml': smallChart('deep', '1', image('v3'))['templates/pod.yaml'] ?? '',
      }
      await repository.commit(await world.world.folder(files))
      const source = { kind: 'git' as const, repo: repository.url, ref: 'main', directory: 'charts/web' }
      const end = await world.build({ source, component: values(), env: { PATH: `${noHelm}:/usr/bin` } })
      expect(end.data).toMatchObject({
        dependencies: [
          { name: 'common', version: '0.1.0', from: 'file://charts/common' },
          { name: 'kept', version: '0.1.0', from: 'charts/' },
        ],
        closure: [{ image: image('v2') }, { image: image('v3') }],
      })
      const again = await world.build({ source, component: values(), env: { PATH: `${noHelm}:/usr/bin` } })
      expect(again.data).toEqual(end.data)
      const outside = await build(
        parent('  - { name: x, version: 1.0.0, repository: "file://../../../.." }\n'),
      )
      expect(outside.data).toEqual({ code: 'source_refused' })
    })

    it.each([
      ['no repository', '  - { name: x, version: 1.0.0 }\n', /names no repository/],
      [
        'a name of one machine',
        '  - { name: x, version: 1.0.0, repository: "@stable" }\n',
        /only one machine knows/,
      ],
    ])('refuses %s', async (_what, dependencies, message) => {
      const { data, output } = await build(parent(dependencies))
      expect(data).toEqual({ code: 'dependency_missing' })
      expect(output).toMatch(message)
    })

    it.each([
      ...HOSTILE.map(([what, entries]) => [what, tarGz(entries)] as const),
      ['a bomb', bomb(120)] as const,
    ])('refuses an archive in charts/ or a repository with %s, and writes nothing', async (_what, bytes) => {
      const entries = { bad: [{ name: 'bad', version: '1.0.0', urls: ['bad.tgz'] }] }
      served.set('/index.yaml', Buffer.from(JSON.stringify({ apiVersion: 'v1', entries })))
      served.set('/bad.tgz', bytes)
      const fetched = await build(parent(`  - { name: bad, version: 1.0.0, repository: "${serverUrl}" }\n`))
      expect(fetched.data).toEqual({ code: 'source_refused' })
      const folder = await world.world.folder(
        parent('  - { name: bad, version: 1.0.0 }\n', { 'charts/x': '' }),
      )
      await writeFile(join(folder, 'charts/bad-1.0.0.tgz'), bytes)
      const present = await world.build({ folder, component: values(), env: { PATH: noHelm } })
      expect(present.data).toEqual({ code: 'source_refused' })
      expect(await readdir(world.world.dir)).not.toContain('escaped')
      await expect(readFile('/tmp/tenon-escaped')).rejects.toThrow(/ENOENT/)
    })
  })

  it('takes a chart of a repository or a registry as it is', async () => {
    await serveChart('cache', ['1.0.0', '1.4.0', '2.0.0-rc1'], image('v3'))
    const fromServer = await world.build({
      component: { helm_repo: { repo_url: serverUrl, chart: 'cache' } },
      env: { PATH: noHelm },
    })
    expect(fromServer.data).toMatchObject({
      chart: { name: 'cache', version: '1.4.0' },
      source: { chart: `${serverUrl}/charts/cache-1.4.0.tgz`, version: '1.4.0' },
    })
    const lent = await world.world.folder({
      'registries.json': JSON.stringify({
        auths: {
          [hostOf(world.vendor)]: { auth: Buffer.from(`tenon:${world.vendor.bearer()}`).toString('base64') },
        },
      }),
    })
    const fromRegistry = await world.build({
      component: {
        helm_repo: { repo_url: `oci://${hostOf(world.vendor)}/apps/demo`, chart: 'part', version: '~1.4' },
      },
      repository: 'apps/demo/again',
      env: { PATH: noHelm, TENON_LENT_PATHS: lent },
    })
    expect(fromRegistry.data).toMatchObject({
      chart: { name: 'cache', version: '1.4.0' },
      digest: fromServer.data['digest'],
    })
    const wrong = { helm_repo: { repo_url: serverUrl, chart: 'absent' } }
    expect((await world.build({ component: wrong, env: { PATH: noHelm } })).data).toEqual({
      code: 'dependency_missing',
    })
  })

  it('refuses an archive that is not what the index says', async () => {
    await serveChart('cache', ['1.0.0'], image('v3'))
    served.set('/charts/cache-1.0.0.tgz', await archive('cache', smallChart('cache', '1.0.0', image('v2'))))
    const end = await world.build({
      component: { helm_repo: { repo_url: serverUrl, chart: 'cache' } },
      env: { PATH: noHelm },
    })
    expect(end.data).toEqual({ code: 'dependency_missing' })
    expect(end.output).toMatch(/The content is sha256:/)
  })

  it.each([
    ['no Chart.yaml', { 'values.yaml': '' }, /it has no Chart.yaml/],
    [
      'a version that is none',
      { 'Chart.yaml': 'apiVersion: v2\nname: x\nversion: one\n' },
      /no semantic version/,
    ],
    [
      'a name that leads elsewhere',
      { 'Chart.yaml': 'apiVersion: v2\nname: ../x\nversion: 1.0.0\n' },
      /must be the name of a chart/,
    ],
  ])('refuses a source with %s', async (_what, files, message) => {
    const { data, output } = await world.build({ files, env: { PATH: noHelm } })
    expect(data).toMatchObject({ code: 'artifact_invalid' })
    expect(output).toMatch(message)
  })
})
