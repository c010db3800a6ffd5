import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mediaTypes, sha256Digest } from './index.ts'
import type { Digest } from './index.ts'
import { createConformanceWorld, json } from './testing/conformance-world.ts'
import type { ConformanceWorld } from './testing/conformance-world.ts'
import { rawRequest } from './testing/raw-http.ts'

/** The distribution specification 1.1, case by case, against a registry that listens on a socket. */
describe('OCI distribution 1.1', () => {
  let w: ConformanceWorld
  let config: Awaited<ReturnType<ConformanceWorld['blob']>>
  let image: Awaited<ReturnType<ConformanceWorld['manifest']>>
  let index: typeof image

  const content = Buffer.from('0123456789')
  const digest = sha256Digest(content)
  const absent: Digest = `sha256:${'0'.repeat(64)}`
  const type = { 'content-type': mediaTypes.manifest }
  const call: ConformanceWorld['call'] = (...args) => w.call(...args)

  beforeAll(async () => {
    w = await createConformanceWorld()
    await w.blob('pull/a', content)
    config = await w.blob('pull/a', Buffer.from('{}'))
    image = await w.manifest('pull/a', 'v1', {
      config,
      layers: [{ mediaType: 'x/y', digest, size: 10 }],
    })
    index = await w.manifest('pull/a', 'all', { manifests: [image.descriptor] }, mediaTypes.index)
    await w.blob('pull/a', Buffer.alloc(0))
  })
  afterAll(() => w.close())

  describe('pull: manifests', () => {
    it.each(['GET', 'HEAD'])('%s by tag gives digest, type and length', async (method) => {
      const answer = await call(method, '/v2/pull/a/manifests/v1')
      expect(answer).toMatchObject({
        status: 200,
        headers: {
          'docker-content-digest': image.digest,
          'content-type': mediaTypes.manifest,
          'content-length': String(image.bytes.byteLength),
          etag: `"${image.digest}"`,
        },
      })
      expect(answer.body.equals(method === 'GET' ? image.bytes : Buffer.alloc(0))).toBe(true)
    })

    it.each(['GET', 'HEAD'])('%s by digest gives exactly these bytes', async (method) => {
      const answer = await call(method, `/v2/pull/a/manifests/${image.digest}`)
      expect(answer).toMatchObject({ status: 200, headers: { 'docker-content-digest': image.digest } })
      expect(answer.body.equals(method === 'GET' ? image.bytes : Buffer.alloc(0))).toBe(true)
    })

    it.each(['GET', 'HEAD'])('%s of an index has the type of an index', async (method) => {
      const answer = await call(method, '/v2/pull/a/manifests/all', { headers: { accept: mediaTypes.index } })
      expect(answer).toMatchObject({
        status: 200,
        headers: { 'content-type': mediaTypes.index, 'docker-content-digest': index.digest },
      })
    })

    it.each(['GET', 'HEAD'])('%s takes a digest with its colon escaped', async (method) => {
      const path = `/v2/pull/a/manifests/${encodeURIComponent(image.digest)}`
      expect(await call(method, path)).toMatchObject({ status: 200 })
    })

    it.each(['v9', absent])('GET of the unknown %s is 404 MANIFEST_UNKNOWN', async (reference) => {
      expect(await call('GET', `/v2/pull/a/manifests/${reference}`)).toMatchObject({
        status: 404,
        code: 'MANIFEST_UNKNOWN',
      })
    })

    it.each(['v9', absent])('HEAD of the unknown %s is 404 without a body', async (reference) => {
      const answer = await call('HEAD', `/v2/pull/a/manifests/${reference}`)
      expect(answer.status).toBe(404)
      expect(answer.body.byteLength).toBe(0)
    })

    it('another repository does not show it', async () => {
      expect(await call('GET', `/v2/pull/b/manifests/${image.digest}`)).toMatchObject({ status: 404 })
    })

    it('an unchanged one is 304', async () => {
      const headers = { 'if-none-match': `"x", "${image.digest}"` }
      const answer = await call('GET', '/v2/pull/a/manifests/v1', { headers })
      expect(answer).toMatchObject({ status: 304, headers: { 'docker-content-digest': image.digest } })
    })
  })

  describe('pull: blobs', () => {
    it('GET gives the content', async () => {
      const answer = await call('GET', `/v2/pull/a/blobs/${digest}`)
      expect(answer).toMatchObject({
        status: 200,
        headers: { 'docker-content-digest': digest, 'content-length': '10', 'accept-ranges': 'bytes' },
      })
      expect(answer.body.equals(content)).toBe(true)
    })

    it('HEAD gives the length', async () => {
      const answer = await call('HEAD', `/v2/pull/a/blobs/${digest}`)
      expect(answer).toMatchObject({ status: 200, headers: { 'content-length': '10' } })
      expect(answer.body.byteLength).toBe(0)
    })

    it('the empty blob is served too', async () => {
      const answer = await call('GET', `/v2/pull/a/blobs/${sha256Digest(Buffer.alloc(0))}`)
      expect(answer).toMatchObject({ status: 200, headers: { 'content-length': '0' } })
    })

    it('GET of an unknown one is 404 BLOB_UNKNOWN', async () => {
      expect(await call('GET', `/v2/pull/a/blobs/${absent}`)).toMatchObject({
        status: 404,
        code: 'BLOB_UNKNOWN',
      })
    })

    it('HEAD of an unknown one is 404', async () => {
      expect(await call('HEAD', `/v2/pull/a/blobs/${absent}`)).toMatchObject({ status: 404, code: undefined })
    })

    it.each([
      ['bytes=0-0', 206, 'bytes 0-0/10', '0'],
      ['bytes=2-4', 206, 'bytes 2-4/10', '234'],
      ['bytes=7-', 206, 'bytes 7-9/10', '789'],
      ['bytes=7-99', 206, 'bytes 7-9/10', '789'],
      ['bytes=-3', 206, 'bytes 7-9/10', '789'],
      ['bytes=-99', 206, 'bytes 0-9/10', '0123456789'],
      ['bytes=4-2', 200, undefined, '0123456789'],
      ['bytes=0-1,3-4', 200, undefined, '0123456789'],
      ['lines=1-2', 200, undefined, '0123456789'],
      ['bytes=a-b', 200, undefined, '0123456789'],
    ])('Range %s is %i', async (range, status, contentRange, body) => {
      const answer = await call('GET', `/v2/pull/a/blobs/${digest}`, { headers: { range } })
      expect(answer.status).toBe(status)
      expect(answer.headers['content-range']).toBe(contentRange)
      expect(answer.body.toString()).toBe(body)
    })

    it.each(['bytes=10-', 'bytes=99-100', 'bytes=-0'])(
      'Range %s is 416 and tells the size',
      async (range) => {
        const answer = await call('GET', `/v2/pull/a/blobs/${digest}`, { headers: { range } })
        expect(answer).toMatchObject({ status: 416, headers: { 'content-range': 'bytes */10' } })
      },
    )

    it('a range counts for GET only, and for the content the client means', async () => {
      const path = `/v2/pull/a/blobs/${digest}`
      expect(await call('HEAD', path, { headers: { range: 'bytes=2-4' } })).toMatchObject({
        status: 200,
        headers: { 'content-length': '10' },
      })
      const other = { range: 'bytes=2-4', 'if-range': '"other"' }
      expect(await call('GET', path, { headers: other })).toMatchObject({ status: 200 })
      const same = { range: 'bytes=2-4', 'if-range': `"${digest}"` }
      expect(await call('GET', path, { headers: same })).toMatchObject({ status: 206 })
    })

    it('an unchanged one is 304', async () => {
      const headers = { 'if-none-match': `"${digest}"` }
      expect(await call('GET', `/v2/pull/a/blobs/${digest}`, { headers })).toMatchObject({ status: 304 })
    })
  })

  describe('push: manifests', () => {
    it('PUT by tag answers 201 with Location and digest', async () => {
      await w.blob('push/m', Buffer.from('{}'))
      const { answer, digest: made } = await w.manifest('push/m', 'v1', { config, layers: [] })
      expect(answer).toMatchObject({
        status: 201,
        headers: { location: `/v2/push/m/manifests/${made}`, 'docker-content-digest': made },
      })
      expect(answer.headers['oci-subject']).toBeUndefined()
      expect(await call('GET', answer.headers.location ?? '')).toMatchObject({ status: 200 })
    })

    it('PUT by digest makes no tag', async () => {
      await w.blob('push/untagged', Buffer.from('{}'))
      const { answer } = await w.manifest('push/untagged', '', { config, layers: [] })
      expect(answer.status).toBe(201)
      expect(json(await call('GET', '/v2/push/untagged/tags/list'))).toMatchObject({ tags: [] })
    })

    it('PUT moves a tag and leaves the former manifest', async () => {
      await w.blob('push/move', Buffer.from('{}'))
      const one = await w.manifest('push/move', 'v1', { config, layers: [] })
      const two = await w.manifest('push/move', 'v1', { config, layers: [], annotations: { a: 'b' } })
      expect((await call('HEAD', '/v2/push/move/manifests/v1')).headers['docker-content-digest']).toBe(
        two.digest,
      )
      expect(await call('GET', `/v2/push/move/manifests/${one.digest}`)).toMatchObject({ status: 200 })
    })

    it('PUT of the same again is 201', async () => {
      const again = await w.manifest('pull/a', 'v1', {
        config,
        layers: [{ mediaType: 'x/y', digest, size: 10 }],
      })
      expect(again.answer.status).toBe(201)
      expect(again.digest).toBe(image.digest)
    })

    it.each([mediaTypes.manifest, mediaTypes.dockerManifest])('PUT takes %s', async (mediaType) => {
      const { answer } = await w.manifest('pull/a', 'typed', { config, layers: [] }, mediaType)
      expect(answer.status).toBe(201)
      expect((await call('GET', '/v2/pull/a/manifests/typed')).headers['content-type']).toBe(mediaType)
    })

    it.each([mediaTypes.index, mediaTypes.dockerList])('PUT takes an empty %s', async (mediaType) => {
      const { answer } = await w.manifest('pull/a', 'empty', { manifests: [] }, mediaType)
      expect(answer.status).toBe(201)
    })

    it('PUT with a subject answers OCI-Subject, even when the subject is not there', async () => {
      const subject = { mediaType: mediaTypes.manifest, digest: absent, size: 7 }
      const { answer } = await w.manifest('pull/a', '', { config, layers: [], subject })
      expect(answer).toMatchObject({ status: 201, headers: { 'oci-subject': absent } })
    })

    it('PUT of an index with a subject answers OCI-Subject', async () => {
      const fields = { manifests: [image.descriptor], subject: image.descriptor, artifactType: 'x/list' }
      const { answer } = await w.manifest('pull/a', '', fields, mediaTypes.index)
      expect(answer).toMatchObject({ status: 201, headers: { 'oci-subject': image.digest } })
    })

    it('PUT takes the tag of the fallback schema', async () => {
      const tag = absent.replace(':', '-')
      const { answer } = await w.manifest('pull/a', tag, { manifests: [] }, mediaTypes.index)
      expect(answer.status).toBe(201)
    })

    it.each([
      ['a missing layer', () => ({ config, layers: [{ mediaType: 'x/y', digest: absent, size: 1 }] })],
      ['a missing config', () => ({ config: { ...config, digest: absent }, layers: [] })],
    ])('PUT with %s is 404 MANIFEST_BLOB_UNKNOWN', async (_what, fields) => {
      const { answer, digest: made } = await w.manifest('pull/a', 'bad', fields())
      expect(answer).toMatchObject({ status: 404, code: 'MANIFEST_BLOB_UNKNOWN' })
      expect(await call('GET', `/v2/pull/a/manifests/${made}`)).toMatchObject({ status: 404 })
    })

    it('PUT of an index with a missing manifest is 404 MANIFEST_BLOB_UNKNOWN', async () => {
      const fields = { manifests: [{ ...image.descriptor, digest: absent }] }
      const { answer } = await w.manifest('pull/a', 'bad', fields, mediaTypes.index)
      expect(answer).toMatchObject({ status: 404, code: 'MANIFEST_BLOB_UNKNOWN' })
    })

    it('PUT under another digest is 400 DIGEST_INVALID', async () => {
      const { answer } = await w.manifest('pull/a', absent, { config, layers: [] })
      expect(answer).toMatchObject({ status: 400, code: 'DIGEST_INVALID' })
    })

    it.each([
      ['no JSON', 'x'],
      ['a list', '[]'],
      ['schema 1', '{"schemaVersion":1}'],
      ['no config', '{"schemaVersion":2,"layers":[]}'],
      ['another media type inside', `{"schemaVersion":2,"mediaType":"${mediaTypes.index}","manifests":[]}`],
      ['bytes that are no UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
    ])('PUT of %s is 400 MANIFEST_INVALID', async (_what, body) => {
      const answer = await call('PUT', '/v2/pull/a/manifests/bad', { body: Buffer.from(body), headers: type })
      expect(answer).toMatchObject({ status: 400, code: 'MANIFEST_INVALID' })
    })

    it('PUT of another content type is 400 MANIFEST_INVALID', async () => {
      const headers = { 'content-type': 'application/vnd.oci.artifact.manifest.v1+json' }
      const answer = await call('PUT', '/v2/pull/a/manifests/bad', { body: Buffer.from('{}'), headers })
      expect(answer).toMatchObject({ status: 400, code: 'MANIFEST_INVALID' })
    })

    it('PUT of exactly 4 MiB is taken, of one byte more refused with 413', async () => {
      const size = 4 * 1024 * 1024
      const text = JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.manifest, config, layers: [] })
      const fits = Buffer.from(text.padEnd(size, ' '))
      expect(await call('PUT', '/v2/pull/a/manifests/fits', { body: fits, headers: type })).toMatchObject({
        status: 201,
      })
      const long = Buffer.from(text.padEnd(size + 1, ' '))
      expect(await call('PUT', '/v2/pull/a/manifests/long', { body: long, headers: type })).toMatchObject({
        status: 413,
        code: 'SIZE_INVALID',
      })
    })
  })

  describe('errors', () => {
    it('every error is JSON with code and message', async () => {
      const answer = await call('GET', '/v2/pull/a/manifests/v9')
      expect(answer.headers['content-type']).toBe('application/json')
      expect(json(answer)).toEqual({
        errors: [{ code: 'MANIFEST_UNKNOWN', message: expect.any(String) as string }],
      })
    })

    it('the base answers 200 with the API version', async () => {
      expect(await call('GET', '/v2/')).toMatchObject({
        status: 200,
        headers: { 'docker-distribution-api-version': 'registry/2.0' },
      })
    })

    it.each([
      ['GET', '/v2/', undefined],
      ['GET', '/v2/pull/a/manifests/v1', 'repository:pull/a:pull'],
      ['POST', '/v2/pull/a/blobs/uploads/', 'repository:pull/a:pull,push'],
      ['DELETE', '/v2/pull/a/manifests/v1', 'repository:pull/a:pull,delete'],
    ])('%s %s without credentials is 401 and names the scope', async (method, path, scope) => {
      const answer = await rawRequest(w.url, method, path)
      expect(answer).toMatchObject({ status: 401, code: 'UNAUTHORIZED' })
      expect(answer.headers['www-authenticate']).toMatch(/^Bearer realm="http:.*",service="tenon"/)
      const named = /scope="([^"]*)"/.exec(answer.headers['www-authenticate'] ?? '')?.[1]
      expect(named).toBe(scope)
    })

    it.each([
      ['GET', '/v2/closed/manifests/v1'],
      ['GET', `/v2/closed/blobs/${absent}`],
      ['GET', '/v2/closed/tags/list'],
      ['GET', `/v2/closed/referrers/${absent}`],
      ['POST', '/v2/closed/blobs/uploads/'],
      ['PUT', '/v2/closed/manifests/v1'],
      ['DELETE', `/v2/closed/blobs/${absent}`],
    ])('%s %s without access is 403 DENIED', async (method, path) => {
      expect(await call(method, path)).toMatchObject({ status: 403, code: 'DENIED' })
    })

    it.each(['/v2/UP/manifests/v1', '/v2/a//b/tags/list', '/v2/-a/blobs/uploads/', '/v2/a/../b/tags/list'])(
      'the name in %s is 400 NAME_INVALID',
      async (path) => {
        expect(await call('GET', path)).toMatchObject({ status: 400, code: 'NAME_INVALID' })
      },
    )

    it.each(['manifests/-x', `manifests/${'t'.repeat(129)}`])('the tag in %s is refused', async (path) => {
      expect(await call('GET', `/v2/pull/a/${path}`)).toMatchObject({ status: 400, code: 'NAME_INVALID' })
    })

    it.each([
      `manifests/sha384:${'a'.repeat(96)}`,
      `blobs/sha512:${'a'.repeat(64)}`,
      'blobs/sha256:abc',
      'blobs/md5:abc',
      'referrers/sha256:abc',
    ])('the digest in %s is 400 DIGEST_INVALID and says what is supported', async (path) => {
      const answer = await call('GET', `/v2/pull/a/${path}`)
      expect(answer).toMatchObject({ status: 400, code: 'DIGEST_INVALID' })
      expect(answer.body.toString()).toContain('use sha256:')
    })

    it.each([
      ['POST', '/v2/pull/a/manifests/v1', 'GET, HEAD, PUT, DELETE'],
      ['PUT', `/v2/pull/a/blobs/${absent}`, 'GET, HEAD, DELETE'],
      ['GET', '/v2/pull/a/blobs/uploads/', 'POST'],
      ['DELETE', '/v2/pull/a/tags/list', 'GET, HEAD'],
    ])('%s %s is 405 with Allow', async (method, path, allow) => {
      expect(await call(method, path)).toMatchObject({ status: 405, headers: { allow }, code: 'UNSUPPORTED' })
    })

    it.each(['/v2/_catalog', '/v2/pull/a', '/v2/pull/a/tags/other'])(
      'there is nothing at %s',
      async (path) => {
        expect(await call('GET', path)).toMatchObject({ status: 404, code: 'UNSUPPORTED' })
      },
    )
  })
})
