import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mediaTypes, sha256Digest } from './index.ts'
import type { Descriptor, Digest } from './index.ts'
import { createConformanceWorld, json } from './testing/conformance-world.ts'
import type { ConformanceWorld } from './testing/conformance-world.ts'

/** The parts of the distribution specification 1.1 that change what a registry holds. */
describe('OCI distribution 1.1', () => {
  let w: ConformanceWorld
  const absent: Digest = `sha256:${'0'.repeat(64)}`
  const call: ConformanceWorld['call'] = (...args) => w.call(...args)

  beforeAll(async () => {
    w = await createConformanceWorld()
  })
  afterAll(() => w.close())

  const bytes = randomBytes(1000)
  const digest = sha256Digest(bytes)

  describe('push: blobs', () => {
    it('POST opens an upload and tells where, how far and how small', async () => {
      const answer = await call('POST', '/v2/up/a/blobs/uploads/')
      expect(answer).toMatchObject({
        status: 202,
        headers: { range: '0-0', 'content-length': '0', 'oci-chunk-min-length': '65536' },
      })
      expect(answer.headers.location).toMatch(/^\/v2\/up\/a\/blobs\/uploads\/[0-9a-f]{32}$/)
      expect(answer.headers['docker-upload-uuid']).toMatch(/^[0-9a-f]{32}$/)
    })

    it('POST then PUT sends it whole', async () => {
      const answer = await call('PUT', `${await w.upload('up/put')}?digest=${digest}`, { body: bytes })
      expect(answer).toMatchObject({
        status: 201,
        headers: { location: `/v2/up/put/blobs/${digest}`, 'docker-content-digest': digest },
      })
      expect((await call('GET', answer.headers.location ?? '')).body.equals(bytes)).toBe(true)
    })

    it('POST with a digest sends it whole in one request', async () => {
      const answer = await call('POST', `/v2/up/post/blobs/uploads/?digest=${digest}`, { body: bytes })
      expect(answer).toMatchObject({ status: 201, headers: { location: `/v2/up/post/blobs/${digest}` } })
    })

    it('POST with the digest of nothing makes the empty blob', async () => {
      const empty = sha256Digest(Buffer.alloc(0))
      const answer = await call('POST', `/v2/up/post/blobs/uploads/?digest=${empty}`, {
        body: Buffer.alloc(0),
      })
      expect(answer.status).toBe(201)
    })

    it('PATCH without a range streams, PUT without a body closes', async () => {
      const location = await w.upload('up/stream')
      const patched = await call('PATCH', location, { body: bytes })
      expect(patched).toMatchObject({ status: 202, headers: { location, range: '0-999' } })
      expect(await call('PUT', `${location}?digest=${digest}`)).toMatchObject({ status: 201 })
    })

    it('PATCH takes a body without a length', async () => {
      const location = await w.upload('up/stream')
      const sent = await fetch(`${w.url}${location}`, {
        method: 'PATCH',
        headers: { authorization: 'Bearer all' },
        body: new Blob([bytes]).stream(),
        duplex: 'half',
      } as RequestInit)
      expect(sent.status).toBe(202)
      expect(sent.headers.get('range')).toBe('0-999')
    })

    it('chunks in order are taken; the last may come with PUT', async () => {
      const location = await w.upload('up/chunks')
      for (const start of [0, 300, 600]) {
        const end = start + 299
        const answer = await call('PATCH', location, {
          body: bytes.subarray(start, end + 1),
          headers: { 'content-range': `${start}-${end}`, 'content-type': 'application/octet-stream' },
        })
        expect(answer).toMatchObject({ status: 202, headers: { location, range: `0-${end}` } })
      }
      const last = { body: bytes.subarray(900), headers: { 'content-range': '900-999' } }
      expect(await call('PUT', `${location}?digest=${digest}`, last)).toMatchObject({ status: 201 })
      expect((await call('GET', `/v2/up/chunks/blobs/${digest}`)).body.equals(bytes)).toBe(true)
    })

    it.each([
      ['one that leaves a hole', '500-999', 500],
      ['one sent twice', '0-399', 400],
      ['one that overlaps', '399-999', 601],
      ['one whose range differs from its length', '400-999', 10],
      ['one whose range is upside down', '999-400', 10],
      ['one whose range is no range', 'some', 10],
    ])('of chunks, %s is 416; the upload stays usable', async (_what, range, length) => {
      const location = await w.upload('up/disorder')
      await call('PATCH', location, { body: bytes.subarray(0, 400), headers: { 'content-range': '0-399' } })
      const wrong = await call('PATCH', location, {
        body: Buffer.alloc(length),
        headers: { 'content-range': range },
      })
      expect(wrong).toMatchObject({ status: 416, code: 'BLOB_UPLOAD_INVALID' })
      expect(await call('GET', location)).toMatchObject({
        status: 204,
        headers: { range: '0-399', location },
      })
      const rest = { body: bytes.subarray(400), headers: { 'content-range': '400-999' } }
      expect(await call('PATCH', location, rest)).toMatchObject({ status: 202, headers: { range: '0-999' } })
      expect(await call('PUT', `${location}?digest=${digest}`)).toMatchObject({ status: 201 })
    })

    it('a first chunk out of order is 416 and tells where to go on', async () => {
      const location = await w.upload('up/disorder')
      const answer = await call('PATCH', location, {
        body: bytes.subarray(100, 200),
        headers: { 'content-range': '100-199' },
      })
      expect(answer).toMatchObject({ status: 416, headers: { location, range: '0-0' } })
    })

    it('PUT with a last chunk out of order is 416', async () => {
      const location = await w.upload('up/disorder')
      const last = { body: bytes.subarray(900), headers: { 'content-range': '900-999' } }
      expect(await call('PUT', `${location}?digest=${digest}`, last)).toMatchObject({ status: 416 })
    })

    it('GET tells how far an upload is', async () => {
      const location = await w.upload('up/status')
      expect(await call('GET', location)).toMatchObject({ status: 204, headers: { location, range: '0-0' } })
      await call('PATCH', location, { body: bytes.subarray(0, 10) })
      expect(await call('GET', location)).toMatchObject({ status: 204, headers: { range: '0-9' } })
    })

    it('DELETE cancels an upload; it is unknown from then on', async () => {
      const location = await w.upload('up/cancel')
      expect(await call('DELETE', location)).toMatchObject({ status: 204 })
      for (const method of ['GET', 'PATCH', 'DELETE']) {
        expect(await call(method, location)).toMatchObject({ status: 404, code: 'BLOB_UPLOAD_UNKNOWN' })
      }
      expect(await call('PUT', `${location}?digest=${digest}`)).toMatchObject({ status: 404 })
    })

    it('a finished upload is unknown', async () => {
      const location = await w.upload('up/done')
      await call('PUT', `${location}?digest=${digest}`, { body: bytes })
      expect(await call('GET', location)).toMatchObject({ status: 404, code: 'BLOB_UPLOAD_UNKNOWN' })
    })

    it.each(['', '?digest=sha256:abc', `?digest=sha512:${'a'.repeat(128)}`])(
      'PUT with the digest %j is 400 DIGEST_INVALID',
      async (query) => {
        const answer = await call('PUT', `${await w.upload('up/bad')}${query}`, { body: bytes })
        expect(answer).toMatchObject({ status: 400, code: 'DIGEST_INVALID' })
      },
    )

    it('PUT and POST with the digest of something else are 400 DIGEST_INVALID', async () => {
      for (const [method, path] of [
        ['PUT', `${await w.upload('up/bad')}?digest=${absent}`],
        ['POST', `/v2/up/bad/blobs/uploads/?digest=${absent}`],
      ] as const) {
        expect(await call(method, path, { body: bytes })).toMatchObject({
          status: 400,
          code: 'DIGEST_INVALID',
        })
      }
      expect(await call('HEAD', `/v2/up/bad/blobs/${absent}`)).toMatchObject({ status: 404 })
    })
  })

  describe('push: mounting', () => {
    it.each([
      ['of a blob that is there is 201', () => digest, '&from=mount/from', 201],
      ['of an unknown blob opens an upload', () => absent, '&from=mount/from', 202],
      ['from an unknown repository opens an upload', () => digest, '&from=mount/none', 202],
      ['from a repository one may not read opens an upload', () => digest, '&from=closed', 202],
      ['without a source opens an upload', () => digest, '', 202],
    ])('%s', async (_what, wanted, from, status) => {
      await w.blob('mount/from', bytes)
      const to = `mount/to-${status}`
      const answer = await call('POST', `/v2/${to}/blobs/uploads/?mount=${wanted()}${from}`)
      expect(answer.status).toBe(status)
      const location = answer.headers.location ?? ''
      expect(location.startsWith(`/v2/${to}/blobs/${status === 201 ? 'sha256:' : 'uploads/'}`)).toBe(true)
      expect((await call('HEAD', `/v2/${to}/blobs/${wanted()}`)).status).toBe(status === 201 ? 200 : 404)
    })

    it('without a source finds what the repository itself holds', async () => {
      await w.blob('mount/own', bytes)
      const answer = await call('POST', `/v2/mount/own/blobs/uploads/?mount=${digest}`)
      expect(answer).toMatchObject({ status: 201, headers: { 'docker-content-digest': digest } })
    })
  })

  describe('discovery: tags', () => {
    beforeAll(async () => {
      const config = await w.blob('tags', Buffer.from('{}'))
      for (const tag of ['b', 'a', 'C', '10', '9']) await w.manifest('tags', tag, { config, layers: [] })
    })

    it.each([
      ['', ['10', '9', 'C', 'a', 'b'], undefined],
      ['?n=2', ['10', '9'], 'n=2&last=9'],
      ['?n=2&last=9', ['C', 'a'], 'n=2&last=a'],
      ['?n=2&last=a', ['b'], undefined],
      ['?n=5', ['10', '9', 'C', 'a', 'b'], undefined],
      ['?n=0', [], undefined],
      ['?last=C', ['a', 'b'], undefined],
      ['?last=Z', ['a', 'b'], undefined],
      ['?n=1&last=b', [], undefined],
    ])('the list %s is in lexical order and names the next page', async (query, tags, next) => {
      const answer = await call('GET', `/v2/tags/tags/list${query}`)
      expect(answer).toMatchObject({ status: 200, headers: { 'content-type': 'application/json' } })
      expect(json(answer)).toEqual({ name: 'tags', tags })
      const link = next === undefined ? undefined : `</v2/tags/tags/list?${next}>; rel="next"`
      expect(answer.headers['link']).toBe(link)
    })

    it('the list of an unknown repository is 404 NAME_UNKNOWN', async () => {
      expect(await call('GET', '/v2/none/tags/list')).toMatchObject({ status: 404, code: 'NAME_UNKNOWN' })
    })
  })

  describe('discovery: referrers', () => {
    let subject: Awaited<ReturnType<ConformanceWorld['manifest']>>
    let pushed: (typeof subject)[]

    beforeAll(async () => {
      const config = await w.blob('refs', Buffer.from('{}'))
      subject = await w.manifest('refs', 'v1', { config, layers: [] })
      const refer = (fields: object, type?: string) =>
        w.manifest('refs', '', { subject: subject.descriptor, ...fields }, type)
      pushed = [
        await refer({ artifactType: 'x/signature', config, layers: [], annotations: { by: 'me' } }),
        await refer({ config: { ...config, mediaType: 'x/sbom' }, layers: [] }),
        await refer({ artifactType: 'x/list', manifests: [] }, mediaTypes.index),
      ]
    })
    const list = async (path: string) => {
      const answer = await call('GET', path)
      return { answer, manifests: (json(answer) as { manifests: Descriptor[] }).manifests }
    }
    const digests = (items: { digest: Digest }[]) => items.map((item) => item.digest).toSorted()

    it('the list is an index of all that name the subject', async () => {
      const { answer, manifests } = await list(`/v2/refs/referrers/${subject.digest}`)
      expect(answer).toMatchObject({ status: 200, headers: { 'content-type': mediaTypes.index } })
      expect(json(answer)).toMatchObject({ schemaVersion: 2, mediaType: mediaTypes.index })
      expect(answer.headers['oci-filters-applied']).toBeUndefined()
      expect(digests(manifests)).toEqual(digests(pushed))
    })

    it.each([
      ['x/signature', 0],
      ['x/sbom', 1],
      ['x/list', 2],
    ])('the type %s is taken from the artifact or its config', async (artifactType, at) => {
      const path = `/v2/refs/referrers/${subject.digest}?artifactType=${encodeURIComponent(artifactType)}`
      const { answer, manifests } = await list(path)
      expect(answer.headers['oci-filters-applied']).toBe('artifactType')
      expect(digests(manifests)).toEqual([pushed[at]?.digest])
      expect(manifests[0]?.artifactType).toBe(artifactType)
    })

    it('a descriptor carries the annotations of its manifest', async () => {
      const { manifests } = await list(`/v2/refs/referrers/${subject.digest}?artifactType=x/signature`)
      expect(manifests[0]?.annotations).toEqual({ by: 'me' })
    })

    it.each(['?artifactType=x/none', ''])('nothing found is an empty list, never 404 (%j)', async (query) => {
      const of = query === '' ? absent : subject.digest
      const { answer, manifests } = await list(`/v2/refs/referrers/${of}${query}`)
      expect(answer.status).toBe(200)
      expect(manifests).toEqual([])
    })

    it('a deleted referrer is listed no more', async () => {
      const gone = pushed[1]?.digest ?? absent
      expect(await call('DELETE', `/v2/refs/manifests/${gone}`)).toMatchObject({ status: 202 })
      const { manifests } = await list(`/v2/refs/referrers/${subject.digest}`)
      expect(digests(manifests)).not.toContain(gone)
    })
  })

  describe('management', () => {
    it('DELETE of a tag leaves the manifest and other tags', async () => {
      const config = await w.blob('del/tag', Buffer.from('{}'))
      const { digest: made } = await w.manifest('del/tag', 'v1', { config, layers: [] })
      await w.manifest('del/tag', 'v2', { config, layers: [] })
      expect(await call('DELETE', '/v2/del/tag/manifests/v1')).toMatchObject({ status: 202 })
      expect(await call('GET', '/v2/del/tag/manifests/v1')).toMatchObject({ status: 404 })
      expect(await call('GET', '/v2/del/tag/manifests/v2')).toMatchObject({ status: 200 })
      expect(await call('GET', `/v2/del/tag/manifests/${made}`)).toMatchObject({ status: 200 })
    })

    it('DELETE of a manifest takes its tags along', async () => {
      const config = await w.blob('del/manifest', Buffer.from('{}'))
      const { digest: made } = await w.manifest('del/manifest', 'v1', { config, layers: [] })
      expect(await call('DELETE', `/v2/del/manifest/manifests/${made}`)).toMatchObject({ status: 202 })
      expect(await call('GET', '/v2/del/manifest/manifests/v1')).toMatchObject({ status: 404 })
      expect(json(await call('GET', '/v2/del/manifest/tags/list'))).toMatchObject({ tags: [] })
    })

    it('DELETE of a blob takes it out of this repository only', async () => {
      await w.blob('del/blob', bytes)
      await w.blob('del/other', bytes)
      expect(await call('DELETE', `/v2/del/blob/blobs/${digest}`)).toMatchObject({ status: 202 })
      expect(await call('HEAD', `/v2/del/blob/blobs/${digest}`)).toMatchObject({ status: 404 })
      expect((await call('GET', `/v2/del/other/blobs/${digest}`)).body.equals(bytes)).toBe(true)
    })

    it('DELETE of a blob that a manifest names is refused until that is gone', async () => {
      const config = await w.blob('del/needed', Buffer.from('{}'))
      const { digest: made } = await w.manifest('del/needed', 'v1', { config, layers: [] })
      const path = `/v2/del/needed/blobs/${config.digest}`
      expect(await call('DELETE', path)).toMatchObject({ status: 409, code: 'DENIED' })
      expect(await call('HEAD', path)).toMatchObject({ status: 200 })
      await call('DELETE', `/v2/del/needed/manifests/${made}`)
      expect(await call('DELETE', path)).toMatchObject({ status: 202 })
    })

    it.each([
      ['manifests/none', 'MANIFEST_UNKNOWN'],
      [`manifests/${absent}`, 'MANIFEST_UNKNOWN'],
      [`blobs/${absent}`, 'BLOB_UNKNOWN'],
    ])('DELETE of the unknown %s is 404', async (path, code) => {
      expect(await call('DELETE', `/v2/del/none/${path}`)).toMatchObject({ status: 404, code })
    })
  })
})
