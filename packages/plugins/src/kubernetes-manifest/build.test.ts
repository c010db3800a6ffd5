import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { MEDIA_TYPES } from '@tenon/protocol'
import { pullArtifactLayers, type Digest } from '@tenon/oci'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createBuildWorld, type BuildWorld } from '../testing/build-world.ts'
import { deployment } from '../testing/charts.ts'
import { hostOf, pushImage } from '../testing/images.ts'
import type { TestRegistry } from '../testing/job-world.ts'
import { pathWith, testTool } from '../testing/tools.ts'

/** Wherever it is asked to connect to, the same server answers. */
async function recordingProxy(answer: RequestListener) {
  const asked: string[] = []
  const origin = createServer(answer)
  const server = createServer((_request, response) => response.writeHead(405).end())
  server.on('connect', (request: IncomingMessage, socket: Duplex) => {
    asked.push(request.url ?? '')
    socket.on('error', () => undefined)
    socket.write('HTTP/1.1 200 OK\r\n\r\n')
    origin.emit('connection', socket)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, asked, close: () => server.close() }
}

describe('the component type kubernetes_manifest', { timeout: 240_000 }, () => {
  let world: BuildWorld
  let images: TestRegistry
  const digests: Record<string, string> = {}

  beforeAll(async () => {
    world = await createBuildWorld('kubernetes_manifest')
    images = await world.world.registry({ authorize: async () => ({ ok: true }) })
    for (const tag of ['v1', 'v2']) digests[tag] = await pushImage(images, 'acme/web', tag)
  })
  afterAll(() => world.close())

  const image = (tag: string) => `${hostOf(images)}/acme/web:${tag}`

  it('packs a manifest that is written in the configuration, the same every time, with its images', async () => {
    const manifest = `${deployment(image('v1'))}---\n${deployment('{{ .nuon.components.api.outputs.image }}', 'api')}`
    const component = { namespace: 'default', manifest }
    const first = await world.build({ component, images: [image('v2')] })
    expect(first.output).toContain('build succeeded')
    expect(first.data).toMatchObject({
      mediaType: MEDIA_TYPES.kubernetesManifest,
      closureFrom: 'rendered',
      closure: [
        { image: image('v1'), digest: digests['v1'] },
        { image: image('v2'), digest: digests['v2'] },
      ],
    })
    expect(first.output).toMatch(
      /note: the image of manifest.yaml: Deployment api, .* is known only in the install/,
    )
    expect((await world.build({ component, images: [image('v2')] })).data).toEqual(first.data)
    const { manifest: stored } = await pullArtifactLayers({
      client: world.vendor.client,
      repository: 'apps/demo/part',
      digest: first.data['digest'] as Digest,
      artifactType: MEDIA_TYPES.kubernetesManifest,
    })
    expect(JSON.parse(stored.annotations?.['dev.tenon.closure'] ?? '')).toEqual(first.data['closure'])
    const other = await world.build({ component, images: [] })
    expect(other.data['digest']).not.toBe(first.data['digest'])
  })

  it('fetches a manifest that it has the address of, and says which it was', async () => {
    const server = createServer((request, response) => {
      if (request.url === '/web.yaml') response.end(deployment(image('v1')))
      else response.writeHead(404).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const { data } = await world.build({ component: { manifest: `${at}/web.yaml` } })
    const absent = await world.build({ component: { manifest: `${at}/none.yaml` } })
    await new Promise((resolve) => server.close(resolve))
    expect(data).toMatchObject({
      source: { url: `${at}/web.yaml`, digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) },
      closure: [{ image: image('v1'), digest: digests['v1'] }],
    })
    expect(absent.data).toEqual({ code: 'source_unreachable' })
    expect(absent.output).toContain(`${at}/none.yaml cannot be fetched: ${at}/none.yaml answered 404.`)
  })

  it('fetches it through the proxy of the job, where nothing else leads to that address', async () => {
    const proxy = await recordingProxy((_request, response) => response.end(deployment(image('v1'))))
    const component = { manifest: 'http://manifests.test/web.yaml' }
    const env = { HTTP_PROXY: proxy.url, NO_PROXY: '127.0.0.1' }
    const { data, output } = await world.build({ component, env })
    const bare = await world.build({ component })
    proxy.close()
    expect(output).toContain('build succeeded')
    expect(data).toMatchObject({ source: { url: 'http://manifests.test/web.yaml' } })
    expect(proxy.asked).toEqual(['manifests.test:80'])
    expect(bare.data).toEqual({ code: 'source_unreachable' })
  })

  it('names the file and the place of an image that cannot be pinned', async () => {
    const { data, output } = await world.build({ files: { 'k8s/web.yaml': deployment(image('absent')) } })
    expect(data).toEqual({ code: 'image_unresolved' })
    expect(output).toContain('named by k8s/web.yaml: Deployment web, spec.template.spec.containers[0].image')
  })

  it('refuses what is no YAML, a way out of the source, and both kinds at once', async () => {
    const broken = await world.build({ files: { 'a.yaml': 'a: [1' } })
    expect(broken.data).toMatchObject({ code: 'artifact_invalid' })
    const out = await world.build({ files: { 'a.yaml': '' }, component: { kustomize: { path: '../..' } } })
    expect(out.data).toEqual({ code: 'source_refused' })
    const both = await world.build({ component: { manifest: 'a: 1', kustomize: { path: '.' } } })
    expect(both.data).toEqual({ code: 'config_invalid' })
  })

  describe('with a kustomization', () => {
    const files = () => ({
      'base/kustomization.yaml': 'resources: [web.yaml]\n',
      'base/web.yaml': deployment(image('v1')),
      'overlays/eu/kustomization.yaml': `resources: [../../base]\nimages:\n  - { name: ${hostOf(images)}/acme/web, newTag: v2 }\n`,
    })
    const component = { kustomize: { path: './overlays/eu' } }

    it.skipIf(testTool('kubectl') === undefined)(
      'finds the images as kubectl renders it (skipped where scripts/test-tools.mjs did not run)',
      async () => {
        const PATH = pathWith(join(world.world.dir, 'with-kubectl'), { kubectl: testTool('kubectl') })
        const { data } = await world.build({ files: files(), component, env: { PATH } })
        expect(data).toMatchObject({
          closureFrom: 'rendered',
          closure: [{ image: image('v2'), digest: digests['v2'] }],
        })
      },
    )

    it('looks into the files where there is no kubectl, and says so', async () => {
      const PATH = pathWith(join(world.world.dir, 'without-kubectl'), {})
      const { data, output } = await world.build({ files: files(), component, env: { PATH } })
      expect(output).toContain('warning: this job has no kubectl')
      expect(data).toMatchObject({ closureFrom: 'static', closure: [{ image: image('v1') }] })
    })
  })
})
