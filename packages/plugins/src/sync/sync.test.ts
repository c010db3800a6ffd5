import { randomBytes } from 'node:crypto'
import { createServer, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ANNOTATIONS } from '@tenon/core'
import { isDigest, packFolder, pushArtifact } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { soon, type JobRecord } from '../testing/job-api-server.ts'
import { INSTALL_ID, JobWorld, type TestRegistry } from '../testing/job-world.ts'
import { until } from '../testing/programs.ts'
import { bundlesFor, testSigner } from '../testing/signer.ts'
import { createProgressTeller } from './progress.ts'

const TYPE = 'application/vnd.test'

describe('the sync job', () => {
  let world: JobWorld
  let vendor: TestRegistry
  const signer = testSigner()
  const closers: (() => unknown)[] = []

  beforeAll(async () => {
    world = await JobWorld.create()
    vendor = await world.registry()
  })
  afterAll(async () => {
    for (const close of closers) close()
    await world.close()
  })

  const start = async (install: TestRegistry, digests: string[], given: Partial<JobRecord> = {}) => {
    const artifacts = digests.map((digest, index) => ({
      name: `a${index}`,
      repository: `apps/a${index}`,
      digest,
    }))
    const plugin = { name: 'sync', repository: 'builtin/sync', digest: null }
    const api = await world.jobApi([{ operation: 'sync', plugin, artifacts, component: null }], {
      context: {
        installId: INSTALL_ID,
        hostSocket: null,
        serverUrl: vendor.server.url,
        programs: world.programs,
        registry: { url: install.server.url, bearer: install.bearer() },
        serverKeys: { [signer.keyId]: signer.publicKey },
      },
      registryCredential: () => ({ registry: vendor.server.url, bearer: vendor.bearer(), expiresAt: soon() }),
      ...given,
    })
    return { api, job: await world.startJob(api) }
  }
  const sync = async (install: TestRegistry, digests: string[], given: Partial<JobRecord> = {}) => {
    const { api, job } = await start(install, digests, given)
    const code = await job.ended
    return { code, output: job.output(), record: api.record }
  }
  const push = async (index: number, content: string) => {
    const repository = `apps/a${index}`
    const digest = await world.push(vendor, repository, { file: content }, TYPE)
    await world.sign(vendor, repository, digest, bundlesFor({ repository, digest }, signer))
    return digest
  }
  const has = async (install: TestRegistry, index: number, digest: string) =>
    isDigest(digest) && (await install.client.headManifest(`apps/a${index}`, digest)) !== undefined

  /** A way to the vendor registry on which something happens in the middle of a blob. */
  const flakyWay = async (bytesUntilThen: () => number, then: (to: ServerResponse) => void) => {
    const to = new URL(vendor.server.url)
    const proxy = createServer((incoming, outgoing) => {
      const { method, url, headers } = incoming
      const onward = request({ host: to.hostname, port: to.port, method, path: url, headers }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
        let left = url?.includes('/blobs/') ? bytesUntilThen() : Number.POSITIVE_INFINITY
        answer.on('data', (chunk: Buffer) => {
          if (left <= 0) return
          outgoing.write(chunk.subarray(0, left))
          left -= chunk.length
          if (left <= 0) then(outgoing)
        })
        answer.on('end', () => left > 0 && outgoing.end())
      })
      onward.on('error', () => outgoing.destroy())
      incoming.pipe(onward)
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    closers.push(() => {
      proxy.close()
      proxy.closeAllConnections()
    })
    return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
  }

  it('copies by digest, says how much, and finds everything in place the second time', async () => {
    const install = await world.registry()
    const digests = [await push(0, 'first'), await push(1, randomBytes(300_000).toString('hex'))]
    const first = await sync(install, digests)
    expect(first.output).toContain('sync succeeded')
    expect(first.code).toBe(0)
    expect(await has(install, 0, digests[0] ?? '')).toBe(true)
    expect(await has(install, 1, digests[1] ?? '')).toBe(true)
    expect(first.record.result?.data['artifacts']).toMatchObject([
      { name: 'a0', repository: 'apps/a0', digest: digests[0], bytesSkipped: 0 },
      { name: 'a1', repository: 'apps/a1', digest: digests[1] },
    ])
    const fractions = first.record.progress.map(({ fraction }) => fraction ?? 0)
    expect(fractions).toEqual(fractions.toSorted((a, b) => a - b))
    expect(fractions.at(-1)).toBe(1)

    const second = await sync(install, digests)
    expect(second.record.result?.data['artifacts']).toMatchObject([{ bytesCopied: 0 }, { bytesCopied: 0 }])
  })

  it('takes along the images of the closure and the signatures, and each shared blob once', async () => {
    const install = await world.registry()
    const image = await world.push(vendor, 'apps/a0', { file: 'an image' }, TYPE)
    const closure = JSON.stringify([{ image: 'redis:7', digest: image }])
    const layers = [
      { mediaType: MEDIA_TYPES.folderLayer, bytes: await packFolder(await world.folder({ a: 'b' })) },
    ]
    const { digest } = await pushArtifact({
      client: vendor.client,
      repository: 'apps/a0',
      artifactType: TYPE,
      layers,
      annotations: { [ANNOTATIONS.closure]: closure },
    })
    await world.sign(vendor, 'apps/a0', digest, bundlesFor({ repository: 'apps/a0', digest }, signer))
    expect((await sync(install, [digest])).code).toBe(0)
    expect(await has(install, 0, image)).toBe(true)
    expect(await install.client.listReferrers('apps/a0', digest)).toHaveLength(2)
  })

  describe('before anything enters the install registry', () => {
    const repository = 'apps/a0'
    const refusedWith = async (digest: string) => {
      const install = await world.registry()
      const { code, record } = await sync(install, [await push(1, 'good'), digest].toReversed())
      expect(code).toBe(1)
      expect(await has(install, 0, digest)).toBe(false)
      expect(await install.client.listTags('apps/a1')).toEqual([])
      expect(record.result?.data['artifacts']).toMatchObject([
        { digest, outcome: 'failed' },
        { outcome: 'not_started' },
      ])
      return record.result?.data['code']
    }
    const unsigned = async () =>
      world.push(vendor, repository, { file: randomBytes(8).toString('hex') }, TYPE)

    it('refuses what carries no signature', async () => {
      expect(await refusedWith(await unsigned())).toBe('signature_missing')
    })

    it.each<[string, (digest: string) => { predicateType: string; text: string }[]]>([
      [
        'the signature of a key that is not pinned',
        (digest) => bundlesFor({ repository, digest }, testSigner('key_x')),
      ],
      [
        'a signature by another key under the name of a pinned one',
        (digest) => bundlesFor({ repository, digest }, testSigner(signer.keyId)),
      ],
      [
        'the signature of another digest',
        () => bundlesFor({ repository, digest: `sha256:${'0'.repeat(64)}` }, signer),
      ],
      [
        'a statement that was changed after it was signed',
        (digest) =>
          bundlesFor({ repository, digest: `sha256:${'0'.repeat(64)}` }, signer).map(
            ({ predicateType, text }) => {
              const bundle = JSON.parse(text) as { dsseEnvelope: { payload: string } }
              const payload = Buffer.from(bundle.dsseEnvelope.payload, 'base64').toString()
              const changed = payload.replace('0'.repeat(64), digest.slice('sha256:'.length))
              bundle.dsseEnvelope.payload = Buffer.from(changed).toString('base64')
              return { predicateType, text: JSON.stringify(bundle) }
            },
          ),
      ],
      ['a signature without provenance', (digest) => bundlesFor({ repository, digest }, signer).slice(0, 1)],
      ['what is no bundle', () => [{ predicateType: 'x', text: '{"mediaType":"x"}' }]],
    ])('refuses %s', async (_, bundles) => {
      const digest = await unsigned()
      await world.sign(vendor, repository, digest, bundles(digest))
      expect(await refusedWith(digest)).toBe('signature_refused')
    })

    it('trusts every key that the agent pinned, also one that was replaced since', async () => {
      const install = await world.registry()
      const [digest, newer] = [await push(0, 'by the old key'), testSigner('key_newer')]
      const keys = { [signer.keyId]: signer.publicKey, [newer.keyId]: newer.publicKey }
      const { api } = await start(install, [])
      const given = { context: { ...api.record.context, serverKeys: keys } }
      expect((await sync(install, [digest], given)).code).toBe(0)
      const later = await unsigned()
      await world.sign(vendor, repository, later, bundlesFor({ repository, digest: later }, newer))
      expect((await sync(install, [later], given)).code).toBe(0)
      const without = { context: { ...api.record.context, serverKeys: {} } }
      expect((await sync(await world.registry(), [digest], without)).record.result?.data['code']).toBe(
        'signature_refused',
      )
    })
  })

  it('goes on where the connection broke', async () => {
    const install = await world.registry()
    const digest = await push(0, randomBytes(500_000).toString('hex'))
    let cuts = 0
    const limit = () => (++cuts <= 2 ? 100_000 : Number.POSITIVE_INFINITY)
    const registry = await flakyWay(limit, (to) => to.destroy())
    const { code, output } = await sync(install, [digest], {
      registryCredential: () => ({ registry, bearer: vendor.bearer(), expiresAt: soon() }),
    })
    expect(output).toContain('sync succeeded')
    expect(code).toBe(0)
    expect(cuts).toBeGreaterThan(2)
  })

  it('asks for access again when what it has is no longer good', async () => {
    const install = await world.registry()
    const digest = await push(0, 'fresh')
    let asked = 0
    const { code } = await sync(install, [digest], {
      registryCredential: () => {
        asked += 1
        return {
          registry: vendor.server.url,
          bearer: asked === 1 ? 'stale' : vendor.bearer(),
          expiresAt: soon(),
        }
      },
    })
    expect(code).toBe(0)
    expect(asked).toBe(2)
  })

  it('asks for access again before it runs out', async () => {
    const install = await world.registry()
    let asked = 0
    const { code } = await sync(install, [await push(0, 'one'), await push(1, 'two')], {
      registryCredential: () => {
        asked += 1
        return { registry: vendor.server.url, bearer: vendor.bearer(), expiresAt: new Date().toISOString() }
      },
    })
    expect(code).toBe(0)
    expect(asked).toBeGreaterThan(2)
  })

  it('fails with a code when the content is not there, access is refused for good, or there is no registry', async () => {
    const install = await world.registry()
    const absent = await sync(install, [`sha256:${'0'.repeat(64)}`])
    expect(absent.code).toBe(1)
    expect(absent.output).toMatch(/^error registry_failed: NOT_FOUND/m)
    const refused = await sync(install, [await push(0, 'x')], {
      registryCredential: () => ({ registry: vendor.server.url, bearer: 'forged', expiresAt: soon() }),
    })
    expect(refused.output).toMatch(/^error registry_failed: UNAUTHORIZED/m)
    expect(refused.output).not.toContain('forged')
    const { api } = await start(install, [])
    const none = await sync(install, [], { context: { ...api.record.context, registry: null } })
    expect(none.record.result?.data).toEqual({ code: 'registry_missing' })
  })

  it('stops in the middle of a blob when told to', async () => {
    const install = await world.registry()
    const digest = await push(0, randomBytes(400_000).toString('hex'))
    let isReached = false
    const registry = await flakyWay(
      () => 100_000,
      () => (isReached = true),
    )
    const { job, api } = await start(install, [digest], {
      registryCredential: () => ({ registry, bearer: vendor.bearer(), expiresAt: soon() }),
    })
    await until('the blob', () => isReached)
    job.child.kill('SIGTERM')
    expect(await job.ended).toBe(1)
    expect(api.record.result?.data).toEqual({ code: 'canceled' })
    expect(await has(install, 0, digest)).toBe(false)
  })
})

describe('the progress of a sync', () => {
  it('never goes backwards and ends at one, whatever is reported', async () => {
    const steps = fc.array(fc.record({ index: fc.nat(3), done: fc.nat(200), total: fc.nat(100) }))
    await fc.assert(
      fc.asyncProperty(steps, async (reports) => {
        const told: number[] = []
        const api = {
          progress: async (_message: string, fraction: number | null) => void told.push(fraction ?? -1),
        }
        let now = 0
        const teller = createProgressTeller(api, 4, () => (now += 1000))
        for (const { index, done, total } of reports) {
          const counts = { doneBlobs: 0, totalBlobs: 1, bytesPerSecond: 0, secondsLeft: undefined }
          teller.tell(index, { doneBytes: done, totalBytes: total, ...counts })
          await Promise.resolve()
        }
        await teller.finish()
        expect(told).toEqual(told.toSorted((a, b) => a - b))
        expect(told.every((fraction) => fraction >= 0 && fraction <= 1)).toBe(true)
        expect(told.at(-1)).toBe(1)
      }),
    )
  })
})
