import {
  ANNOTATIONS,
  BUNDLE_ANNOTATIONS,
  checkBundle,
  extendPinnedKeys,
  parseEntry,
  PREDICATES,
  type AuditEntry,
} from '@tenon/core'
import type { AgentFrame } from '@tenon/protocol'
import { bundleFromJSON } from '@sigstore/bundle'
import { toSignedEntity, toTrustMaterial, Verifier } from '@sigstore/verify'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { verify } from '../crypto.ts'
import { entriesOf } from '../testing/audit.ts'
import { MANIFEST, rawRegistry } from '../testing/raw-registry.ts'
import {
  connectAgent,
  enrolTestAgent,
  finishedFrame,
  manifestOf,
  startedFrame,
  type TestAgent,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { component } from '../testing/world.ts'
import { readBundle } from './describe-artifact.ts'
import { createSignatureWatch } from './signatures.ts'

const REPOSITORY = 'apps/shop/web'
const COMMIT = 'c'.repeat(40)
const BUNDLE = 'application/vnd.dev.sigstore.bundle.v0.3+json'

describe('the signature of an artifact', () => {
  let tenant: TestTenant
  let builder: TestAgent
  let requests = 0

  beforeAll(async () => {
    tenant = await startTestTenant({ leaseSeconds: 600, heartbeatSeconds: 60 })
    const { client, url } = tenant
    await client.call('apps.sync', {
      body: { app: { name: 'shop', displayName: 'shop', description: '', components: [component('web')] } },
    })
    const { joinToken } = await client.call('agents.joinToken', { body: { role: 'build' } })
    builder = await connectAgent(url, await enrolTestAgent(url, joinToken))
  })
  afterAll(() => tenant.stop())

  type Want = Pick<Extract<AgentFrame, { type: 'credential.request' }>, 'want' | 'artifact'>
  async function ask(job: { jobId: string; fence: number }, want: Want) {
    const requestId = ++requests
    const { jobId, fence } = job
    builder.send({ type: 'credential.request', requestId, jobId, fence, ...want })
    const granted = builder.next('credential.grant', (f) => f.requestId === requestId)
    const refused = builder.next('credential.refused', (f) => f.requestId === requestId)
    granted.catch(() => undefined)
    refused.catch(() => undefined)
    return Promise.race([granted, refused])
  }

  /** A build that has pushed an artifact with one image in its closure. */
  async function building(content: string) {
    const { client, url } = tenant
    const source = await client.call('sources.put', { body: new TextEncoder().encode(content) })
    const components = [{ name: 'web', source: source.digest }]
    await client.call('builds.create', { params: { ref: 'shop' }, body: { components } })
    const assign = await builder.next('job.assign')
    const job = manifestOf(assign)
    builder.send({ type: 'job.accepted', jobId: job.jobId, fence: job.fence })
    builder.send(startedFrame(job))
    const given = await ask(job, { want: 'registry' })
    if (given.type !== 'credential.grant' || given.credential.want !== 'registry')
      throw new Error('no access')
    const registry = rawRegistry(url, given.credential.bearer)
    const image = await registry.push(REPOSITORY, `image of ${content}`)
    const closure = JSON.stringify([{ image: 'redis:7', digest: image.digest }])
    const artifact = await registry.push(REPOSITORY, content, {
      annotations: { [ANNOTATIONS.closure]: closure },
    })
    return { job, source, image, artifact, registry, assign }
  }
  const wanted = (digest: string) => ({
    want: 'attestation' as const,
    artifact: {
      digest,
      mediaType: MANIFEST,
      size: 1,
      materials: [{ uri: 'git+https://example.com/shop', digest: { gitCommit: COMMIT } }],
    },
  })
  async function attested(build: Awaited<ReturnType<typeof building>>) {
    const answer = await ask(build.job, wanted(build.artifact.digest))
    if (answer.type !== 'credential.grant' || answer.credential.want !== 'attestation')
      throw new Error(`refused: ${JSON.stringify(answer)}`)
    return answer.credential
  }
  async function end(job: { jobId: string; fence: number }, result = {}) {
    builder.send(finishedFrame(builder.identity, job, { result }))
    await builder.next('job.settled', (f) => f.jobId === job.jobId)
  }
  async function serverKeys() {
    const { keys } = await tenant.client.call('server.info', {})
    const [first] = builder.identity.keys
    return extendPinnedKeys(new Map([[first!.keyId, first!.publicKey]]), keys, verify)
  }

  it('holds for sigstore, and says from what, by whom and by which job it was made', async () => {
    const build = await building('first')
    const { artifact, source, image, job } = build
    const { bundles, repository } = await attested(build)
    expect(repository).toBe(REPOSITORY)
    expect(bundles.map(({ predicateType }) => predicateType)).toEqual([
      PREDICATES.signature,
      PREDICATES.provenance,
    ])
    const keys = await serverKeys()
    for (const { text } of bundles) expect(() => verifyBySigstore(text, keys)).not.toThrow()
    const check = checkBundle(bundles[1]!.text, artifact.digest, keys, verify)
    const sha256 = (digest: string) => ({ sha256: digest.replace('sha256:', '') })
    expect(check).toMatchObject({
      ok: true,
      statement: {
        predicate: {
          buildDefinition: {
            externalParameters: { repository: REPOSITORY, component: 'web' },
            internalParameters: { manifestDigest: expect.stringMatching(/^sha256:/) },
            resolvedDependencies: expect.arrayContaining([
              { uri: 'tenon/sources', digest: sha256(source.digest) },
              { uri: 'git+https://example.com/shop', digest: { gitCommit: COMMIT } },
              { uri: 'redis:7', digest: sha256(image.digest) },
            ]),
          },
          runDetails: {
            builder: { id: expect.stringContaining(tenant.context.serverId) },
            metadata: { invocationId: job.jobId },
          },
        },
      },
    })
    const entries = (await entriesOf(tenant, 'server')).map(({ body }) => parseEntry(body) as AuditEntry)
    const signed = entries.filter(({ subject }) => subject.id === `${REPOSITORY}@${artifact.digest}`)
    expect(signed).toMatchObject([
      { action: 'artifact.signed', outcome: 'ok', details: { jobId: job.jobId } },
    ])
    await end(job, { digest: artifact.digest, repository: REPOSITORY })
  })

  it('does not hold for sigstore once a byte of it is changed or another key is under its name', async () => {
    const build = await building('second')
    const { text } = (await attested(build)).bundles[0]!
    const changed = JSON.parse(text) as { dsseEnvelope: { payload: string } }
    const payload = Buffer.from(changed.dsseEnvelope.payload, 'base64').toString()
    changed.dsseEnvelope.payload = Buffer.from(payload.replace('web', 'wet')).toString('base64')
    const keys = await serverKeys()
    expect(() => verifyBySigstore(JSON.stringify(changed), keys)).toThrow('signature')
    const posing = new Map([...keys.keys()].map((id) => [id, builder.identity.key.publicKey]))
    expect(() => verifyBySigstore(text, posing)).toThrow('signature')
    await end(build.job)
  })

  it('is given to a build for what its own repository holds, and to nobody else', async () => {
    const build = await building('third')
    const absent = `sha256:${'0'.repeat(64)}`
    expect(await ask(build.job, wanted(absent))).toMatchObject({ type: 'credential.refused' })
    expect(await ask(build.job, wanted(build.source.digest))).toMatchObject({ type: 'credential.refused' })
    expect(await ask(build.job, { want: 'attestation' })).toMatchObject({ type: 'credential.refused' })
    const late = { ...build.job, fence: build.job.fence + 1 }
    expect(await ask(late, wanted(build.artifact.digest))).toMatchObject({ type: 'credential.refused' })
    await end(build.job)
    expect(await ask(build.job, wanted(build.artifact.digest))).toMatchObject({ type: 'credential.refused' })
  })

  it('in the form that sigstore refuses is made again, once', async () => {
    const build = await building('signed by an older version')
    const { bundles, subject } = await attested(build)
    for (const { predicateType, text } of bundles)
      await build.registry.push(REPOSITORY, inOldForm(text), {
        artifactType: BUNDLE,
        subject,
        annotations: { [BUNDLE_ANNOTATIONS.predicateType]: predicateType },
      })
    await end(build.job, { digest: build.artifact.digest, repository: REPOSITORY })
    const digest = build.artifact.digest as `sha256:${string}`
    const standard = async () => {
      const keys = await serverKeys()
      const found: string[] = []
      const { storage } = tenant.context.registry
      for (const referrer of await storage.listReferrers(REPOSITORY, digest)) {
        const text = await readBundle(storage, REPOSITORY, referrer.digest)
        const check = checkBundle(text ?? '', digest, keys, verify)
        if (check.ok && check.isStandard) found.push(check.predicateType)
      }
      return found.toSorted()
    }
    // An older version made no note of what it had signed.
    await tenant.context.pool.query('update server_key set signed_form = 0')
    for (const start of [1, 2]) {
      // What a server does once after its start.
      await createSignatureWatch(tenant.context)()
      expect([start, await standard()]).toEqual([
        start,
        [PREDICATES.signature, PREDICATES.provenance].toSorted(),
      ])
    }
  })

  it('is looked for once for each key, also when one artifact is damaged', async () => {
    const damaged = await building('damaged')
    const { subject } = await attested(damaged)
    const lost = await damaged.registry.push(REPOSITORY, 'a bundle', { artifactType: BUNDLE, subject })
    await end(damaged.job, { digest: damaged.artifact.digest, repository: REPOSITORY })
    const { storage } = tenant.context.registry
    const { bytes } = (await storage.getManifest(REPOSITORY, lost.digest as `sha256:${string}`))!
    const { layers } = JSON.parse(bytes.toString()) as { layers: { digest: `sha256:${string}` }[] }
    await storage.deleteBlob(REPOSITORY, layers[0]!.digest)
    await tenant.context.pool.query('update server_key set signed_form = 0')
    const looked = vi.spyOn(storage, 'listReferrers')
    const reads = async (watch: () => Promise<void>) => {
      await watch()
      return looked.mock.calls.splice(0).length
    }
    try {
      const watch = createSignatureWatch(tenant.context)
      expect(await reads(watch)).toBeGreaterThan(1)
      expect(await reads(watch)).toBe(1)
      await damaged.registry.push(REPOSITORY, 'a bundle', { artifactType: BUNDLE, subject })
      expect([await reads(watch), await reads(watch)]).toEqual([1, 0])
      expect(await reads(createSignatureWatch(tenant.context))).toBeGreaterThan(1)
      expect(await reads(createSignatureWatch(tenant.context))).toBe(0)
    } finally {
      looked.mockRestore()
    }
  })

  it('is there for the plugins that the server brings, once for each key', async () => {
    const { storage } = tenant.context.registry
    const { rows } = await tenant.context.pool.query<{ repository: string; digest: `sha256:${string}` }>(
      'select repository, digest from plugin',
    )
    const bundlesOf = async () => {
      const lists = await Promise.all(
        rows.map(({ repository, digest }) => storage.listReferrers(repository, digest)),
      )
      return lists.map((list) =>
        list.map(({ artifactType, annotations }) => [
          artifactType,
          annotations?.[BUNDLE_ANNOTATIONS.predicateType],
        ]),
      )
    }
    const both = [PREDICATES.signature, PREDICATES.provenance].map((predicate) => [BUNDLE, predicate])
    const expected = rows.map(() => expect.arrayContaining(both))
    expect(await bundlesOf()).toEqual(expected)
    await tenant.client.call('keys.rotate', {})
    const another = await tenant.another()
    expect((await bundlesOf()).map((list) => list.length)).toEqual(rows.map(() => 4))
    await another.stop()
  })

  it('is renewed by a rotation, so that an install that enrols later can sync what was built before', async () => {
    const build = await building('long before')
    const { bundles, subject } = await attested(build)
    for (const { predicateType, text } of bundles)
      await build.registry.push(REPOSITORY, text, {
        artifactType: BUNDLE,
        subject,
        annotations: { [BUNDLE_ANNOTATIONS.predicateType]: predicateType },
      })
    await end(build.job, { digest: build.artifact.digest, repository: REPOSITORY })
    await tenant.client.call('keys.rotate', {})
    const { keyId, key } = tenant.context.keys.current()
    // A join token names the newest key, and only keys that it vouches for are trusted besides.
    const links = (await tenant.client.call('server.info', {})).keys
    const pinned = extendPinnedKeys(new Map([[keyId, key.publicKey]]), links, verify)
    expect([...pinned.keys()]).toEqual([keyId])
    const { rows } = await tenant.context.pool.query<{ repository: string; digest: `sha256:${string}` }>(
      'select repository, digest from plugin',
    )
    const { storage } = tenant.context.registry
    const digest = build.artifact.digest as `sha256:${string}`
    for (const one of [...rows, { repository: REPOSITORY, digest }]) {
      const vouched = new Set<string>()
      for (const referrer of await storage.listReferrers(one.repository, one.digest)) {
        const text = await readBundle(storage, one.repository, referrer.digest)
        const check = checkBundle(text ?? '', one.digest, pinned, verify)
        if (check.ok) vouched.add(check.predicateType)
      }
      expect([...vouched].toSorted()).toEqual([PREDICATES.signature, PREDICATES.provenance].toSorted())
    }
    const audit = (await entriesOf(tenant, 'server')).map((entry) => entry.body)
    expect(audit.some((body) => body.includes('the keys were rotated') && body.includes(digest))).toBe(true)
  })

  it('by a newer key is trusted through the chain, and so is one by an older key', async () => {
    const before = await building('before')
    const old = (await attested(before)).bundles
    await end(before.job)
    await tenant.client.call('keys.rotate', {})
    const after = await building('after')
    const fresh = (await attested(after)).bundles
    await end(after.job)
    const keys = await serverKeys()
    for (const { text } of old) expect(checkBundle(text, before.artifact.digest, keys, verify).ok).toBe(true)
    for (const { text } of fresh) {
      expect(checkBundle(text, after.artifact.digest, keys, verify).ok).toBe(true)
      expect(() => verifyBySigstore(text, keys)).not.toThrow()
    }
  })
})

/** As versions before this one wrote it: the envelope names the key by our id. */
function inOldForm(text: string): string {
  const bundle = JSON.parse(text) as {
    verificationMaterial: { publicKey: { hint: string } }
    dsseEnvelope: { signatures: { sig: string; keyid?: string }[] }
  }
  for (const signature of bundle.dsseEnvelope.signatures)
    signature.keyid = bundle.verificationMaterial.publicKey.hint
  return JSON.stringify(bundle)
}

/** Of sigstore's `PublicKeyDetails`. */
const PKIX_ED25519 = 7

/** As a stranger would check it: sigstore's own code, the tenant's keys, no transparency log. */
function verifyBySigstore(text: string, keys: ReadonlyMap<string, string>): void {
  const material = toTrustMaterial(
    { mediaType: '', tlogs: [], certificateAuthorities: [], ctlogs: [], timestampAuthorities: [] },
    Object.fromEntries(
      [...keys].map(([id, key]) => {
        const rawBytes = Buffer.from(key, 'base64')
        return [id, { rawBytes, keyDetails: PKIX_ED25519, validFor: { start: new Date(0), end: undefined } }]
      }),
    ),
  )
  const options = { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 }
  new Verifier(material, options).verify(toSignedEntity(bundleFromJSON(JSON.parse(text))))
}
