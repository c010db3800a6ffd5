import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { digestOf, mediaTypes } from '@tenon/oci'
import { createBuildWorld, type BuildWorld } from '../testing/build-world.ts'
import { hostOf, pushImage, pushIndex } from '../testing/images.ts'
import type { TestRegistry } from '../testing/job-world.ts'
import { ecrRegion } from '../build/image-sources.ts'
import { imageName } from './build.ts'

describe('the component type container_image', { timeout: 240_000 }, () => {
  let world: BuildWorld
  let open: TestRegistry
  let closed: TestRegistry

  beforeAll(async () => {
    world = await createBuildWorld('container_image')
    open = await world.world.registry({ authorize: async () => ({ ok: true }) })
    closed = await world.world.registry()
  })
  afterAll(() => world.close())

  const image = (registry: TestRegistry, repository: string, tag: string) => ({
    public: { image_url: `${hostOf(registry)}/${repository}`, tag },
  })
  const holds = (digest: string) => world.vendor.client.headManifest('apps/demo/part', digest)

  it('mirrors a whole index, pinned to the digest that its tag stands for', async () => {
    const index = await pushIndex(open, 'library/web', 'v1')
    const first = await world.build({ component: image(open, 'library/web', 'v1') })
    expect(first.output).toContain('build succeeded')
    expect(first.data).toMatchObject({
      digest: index.digest,
      mediaType: mediaTypes.index,
      repository: 'apps/demo/part',
      manifests: 3,
      image: { name: `${hostOf(open)}/library/web:v1`, digest: index.digest },
    })
    for (const digest of Object.values(index.images)) expect(await holds(digest)).toBeDefined()
    const again = await world.build({ component: image(open, 'library/web', 'v1') })
    expect(again.data).toEqual(first.data)
    expect(again.output).toContain('0 B copied')
    const moved = await pushImage(open, 'library/web', 'v1', 'other')
    const after = await world.build({ component: image(open, 'library/web', 'v1') })
    expect(after.data).toMatchObject({ digest: moved, mediaType: mediaTypes.manifest })
    const pinned = await world.build({ component: image(open, 'library/web', index.digest) })
    expect(pinned.data['digest']).toBe(index.digest)
  })

  it('mirrors one platform where that is wanted', async () => {
    const index = await pushIndex(open, 'library/api', 'v1')
    const component = { ...image(open, 'library/api', 'v1'), platform: 'linux/arm64' }
    const one = await world.build({ component, repository: 'apps/demo/one' })
    expect(one.data).toMatchObject({ digest: index.images['arm64'], platform: 'linux/arm64', manifests: 1 })
    expect(
      await world.vendor.client.headManifest('apps/demo/one', index.images['amd64'] ?? ''),
    ).toBeUndefined()
    const none = await world.build({ component: { ...component, platform: 'plan9/mips' } })
    expect(none.output).toMatch(
      /NOT_FOUND: The index has nothing for plan9\/mips; it offers linux\/amd64, linux\/arm64/,
    )
  })

  it('reads a private registry by what the build agent was lent, and says so when it was lent nothing', async () => {
    const digest = await pushImage(closed, 'private/app', 'v2')
    const component = image(closed, 'private/app', 'v2')
    const refused = await world.build({ component })
    expect(refused.data).toEqual({ code: 'image_unresolved' })
    expect(refused.output).toMatch(/lend the build agent a registries.json/)
    const auth = Buffer.from(`tenon:${closed.bearer()}`).toString('base64')
    const lent = await world.world.folder({
      'registries.json': JSON.stringify({ auths: { [hostOf(closed)]: { auth } } }),
    })
    const { data, output } = await world.build({ component, env: { TENON_LENT_PATHS: lent } })
    expect(data['digest']).toBe(digest)
    expect(output).not.toContain(auth)
  })

  it.each([
    ['no image at all', {}],
    ['a template', { public: { image_url: 'a/b', tag: '{{ .nuon.inputs.inputs.tag }}' } }],
    ['half an image', { public: { image_url: 'a/b' } }],
  ])('refuses %s', async (_what, component) => {
    expect((await world.build({ component })).data).toEqual({ code: 'config_invalid' })
  })

  it('refuses images that only another component could carry', async () => {
    const end = await world.build({ component: image(open, 'library/web', 'v1'), images: ['a/b:1'] })
    expect(end.data).toEqual({ code: 'config_invalid' })
  })

  it('refuses an image that is pinned by sha512, since artifacts are named by sha256', async () => {
    const { bytes, mediaType } = await open.client.getManifest(
      'library/web',
      await pushImage(open, 'library/web', 'long'),
    )
    const tag = digestOf('sha512', bytes)
    await open.client.putManifest('library/web', tag, mediaType, bytes)
    const { data, output } = await world.build({ component: image(open, 'library/web', tag) })
    expect(data).toEqual({ code: 'image_unresolved' })
    expect(output).toContain('Name it by its sha256 digest')
  })

  it('refuses an image that is not there, naming it', async () => {
    const { data, output } = await world.build({ component: image(open, 'nothing/here', 'v1') })
    expect(data).toEqual({ code: 'image_unresolved' })
    expect(output).toContain('nothing/here:v1", named by the component, cannot be pinned')
  })
})

describe('the name of a mirrored image', () => {
  it('may be pinned by a digest in place of a tag', () => {
    const tag = `sha256:${'a'.repeat(64)}`
    expect(imageName({ image_url: 'docker://quay.io/a/b', tag })).toBe(`quay.io/a/b@${tag}`)
    expect(imageName({ image_url: 'quay.io/a/b', tag: 'v1' })).toBe('quay.io/a/b:v1')
  })

  it('tells the region of an ECR registry', () => {
    expect(ecrRegion('123456789012.dkr.ecr.us-west-2.amazonaws.com')).toBe('us-west-2')
    expect(ecrRegion('123456789012.dkr.ecr.us-west-2.amazonaws.com.example.com')).toBeUndefined()
  })
})
