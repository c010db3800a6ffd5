import { ANNOTATIONS, BUNDLE_ANNOTATIONS } from '@tenon/core'
import { collectGarbage } from '@tenon/oci'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { collectVendorGarbage } from '../artifacts/collect-garbage.ts'
import { auditOf } from '../testing/audit.ts'
import { rawRegistry } from '../testing/raw-registry.ts'
import {
  connectAgent,
  enrolTestAgent,
  finishedFrame,
  manifestOf,
  startedFrame,
  type TestAgent,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { component, ended, installAgent, newInstall, workAll } from '../testing/world.ts'

const REPOSITORY = 'apps/shop/web'
const BUNDLE = 'application/vnd.dev.sigstore.bundle.v0.3+json'

describe('artifacts', () => {
  let tenant: TestTenant
  let builder: TestAgent
  let requests = 0
  let built: Awaited<ReturnType<typeof buildOnce>>

  beforeAll(async () => {
    tenant = await startTestTenant({ leaseSeconds: 600, heartbeatSeconds: 60 })
    const { client, url } = tenant
    await client.call('apps.sync', {
      body: { app: { name: 'shop', displayName: 'shop', description: '', components: [component('web')] } },
    })
    const { joinToken } = await client.call('agents.joinToken', { body: { role: 'build' } })
    builder = await connectAgent(url, await enrolTestAgent(url, joinToken))
    built = await buildOnce('the artifact')
  })
  afterAll(() => tenant.stop())

  async function begin(content: string) {
    const { client } = tenant
    const source = await client.call('sources.put', { body: new TextEncoder().encode(content) })
    const components = [{ name: 'web', source: source.digest }]
    const { builds } = await client.call('builds.create', { params: { ref: 'shop' }, body: { components } })
    return { build: builds[0]!, source, job: await take() }
  }
  async function take() {
    const job = manifestOf(await builder.next('job.assign'))
    builder.send({ type: 'job.accepted', jobId: job.jobId, fence: job.fence })
    builder.send(startedFrame(job))
    return job
  }
  async function ask(job: { jobId: string; fence: number }, want: object) {
    const requestId = ++requests
    const { jobId, fence } = job
    builder.send({ type: 'credential.request', requestId, jobId, fence, ...want } as never)
    return (await builder.next('credential.grant', (f) => f.requestId === requestId)).credential
  }

  /** With one image in its closure, and signed. */
  async function buildOnce(content: string) {
    const { build, job, source } = await begin(content)
    const access = await ask(job, { want: 'registry' })
    if (access.want !== 'registry') throw new Error('no access')
    const registry = rawRegistry(tenant.url, access.bearer)
    const image = await registry.push(REPOSITORY, `image of ${content}`)
    const closure = JSON.stringify([{ image: 'redis:7', digest: image.digest }])
    const artifact = await registry.push(REPOSITORY, content, {
      annotations: { [ANNOTATIONS.closure]: closure },
    })
    const { digest, mediaType, size } = artifact
    const signed = await ask(job, {
      want: 'attestation',
      artifact: { digest, mediaType, size, materials: [] },
    })
    if (signed.want !== 'attestation') throw new Error('not signed')
    for (const { text, predicateType } of signed.bundles)
      await registry.push(REPOSITORY, text, {
        artifactType: BUNDLE,
        subject: { digest, mediaType, size },
        annotations: { [BUNDLE_ANNOTATIONS.predicateType]: predicateType },
      })
    builder.send(finishedFrame(builder.identity, job, { result: { digest, repository: REPOSITORY } }))
    await builder.next('job.settled')
    return { build, artifact, image, source }
  }

  it('are listed by app and component, and shown whole: tree, closure, signatures, where they run', async () => {
    const { client } = tenant
    const { run } = await newInstall(client, 'one')
    const agent = await installAgent(tenant, 'one')
    const stop = new AbortController()
    const working = workAll(agent, undefined, stop.signal)
    await ended(client, run.id)
    stop.abort()
    await working
    const { artifact, image, build } = built
    const list = await client.call('artifacts.list', { query: { app: 'shop', component: 'web' } })
    expect(list.items).toMatchObject([
      { id: build.id, digest: artifact.digest, repository: REPOSITORY, installs: 1 },
    ])
    expect((await client.call('artifacts.list', { query: { component: 'db' } })).items).toEqual([])
    const shown = await client.call('artifacts.get', { params: { ref: artifact.digest } })
    expect(shown).toMatchObject({
      tree: [{ digest: artifact.digest, depth: 0, blobs: [{}, { digest: artifact.layer }] }],
      closure: [{ image: 'redis:7', digest: image.digest, isThere: true }],
      installed: [{ install: 'one', component: 'web' }],
    })
    expect(shown.signatures.map(({ isValid }) => isValid)).toEqual([true, true])
    expect(shown.bytes).toBeGreaterThan(artifact.size + image.size)
    expect(await client.call('artifacts.get', { params: { ref: build.id } })).toEqual(shown)
    await expect(client.call('artifacts.get', { params: { ref: 'none' } })).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  it('stay with all they need when the registry is cleaned, and so does what an unfinished job needs', async () => {
    const { client, context } = tenant
    const running = await begin('of a build that runs')
    const access = await ask(running.job, { want: 'registry' })
    const waste = await rawRegistry(tenant.url, (access as { bearer: string }).bearer).push(
      REPOSITORY,
      'waste',
    )
    const old = await client.call('sources.put', { body: new TextEncoder().encode('of no build') })
    const usage = await client.call('registry.usage', {})
    expect(usage.repositories.map(({ name }) => name)).toEqual(
      expect.arrayContaining([REPOSITORY, 'tenon/sources']),
    )

    const gentle = await client.call('registry.gc', { body: { dryRun: false, graceHours: 24 } })
    expect(gentle).toMatchObject({ manifests: 0, contents: 0 })
    const caller = {
      principal: { id: 'prn_x', kind: 'user' as const, name: 'x' },
      tokenId: 'tok_x',
      tokenName: 'x',
      grant: { role: 'owner' as const, scope: 'all' as const },
    }
    // As if a day had passed for all that is there.
    const later = { ...context, now: () => Date.now() + 48 * 3_600_000 }
    const grace = 24 * 3_600_000
    const dry = await collectVendorGarbage(later, { dryRun: true, graceMs: grace }, caller)
    const wet = await collectVendorGarbage(later, { dryRun: false, graceMs: grace }, caller)
    // The waste, and the sources of builds that have ended or never were.
    expect(wet).toMatchObject({
      manifests: dry.manifests,
      contents: dry.contents,
      bytesFreed: dry.bytesFreed,
    })
    expect(wet.manifests).toBe(3)
    const { storage } = context.registry
    const isThere = async (repository: string, digest: string) =>
      (await storage.getManifest(repository, digest as never)) !== undefined
    const { artifact, image, source } = built
    expect(await isThere(REPOSITORY, artifact.digest)).toBe(true)
    expect(await isThere(REPOSITORY, image.digest)).toBe(true)
    expect(await isThere('tenon/sources', running.source.digest)).toBe(true)
    expect(await isThere(REPOSITORY, waste.digest)).toBe(false)
    expect(await isThere('tenon/sources', old.digest)).toBe(false)
    expect(await isThere('tenon/sources', source.digest)).toBe(false)
    const shown = await client.call('artifacts.get', { params: { ref: artifact.digest } })
    expect(shown.signatures.map(({ isValid }) => isValid)).toEqual([true, true])
    expect(shown.closure).toMatchObject([{ isThere: true }])
    const left = await collectGarbage(storage, { graceMs: grace, now: later.now, dryRun: true })
    expect(left).toMatchObject({ manifests: 0, blobs: 0, contents: 0 })
    expect(await auditOf(tenant, 'server', 'vendor')).toEqual(
      Array.from({ length: 3 }, () => 'registry.garbage_collected ok'),
    )
    builder.send(finishedFrame(builder.identity, running.job, { outcome: 'failed' }))
    await builder.next('job.settled')
  })

  it('are cleaned by owners only', async () => {
    const { client } = await tenant.clientFor('operator')
    await expect(client.call('registry.gc', { body: { dryRun: true } })).rejects.toMatchObject({
      code: 'forbidden',
    })
  })

  it('are tried for again, from the same source, when a build failed', async () => {
    const { client } = tenant
    const first = await begin('that fails at first')
    await expect(client.call('builds.retry', { params: { id: first.build.id } })).rejects.toMatchObject({
      code: 'wrong_state',
    })
    builder.send(finishedFrame(builder.identity, first.job, { outcome: 'failed' }))
    await until('the failure', async () => {
      return (await client.call('builds.get', { params: { id: first.build.id } })).status === 'failed'
    })
    const again = await client.call('builds.retry', { params: { id: first.build.id } })
    expect(again).toMatchObject({ component: 'web', appVersion: first.build.appVersion })
    expect(again.id).not.toBe(first.build.id)
    const job = await take()
    expect(job.operations[0]!.artifacts).toEqual(first.job.operations[0]!.artifacts)
    builder.send(finishedFrame(builder.identity, job, { outcome: 'failed' }))
    await builder.next('job.settled', (f) => f.jobId === job.jobId)
  })
})
