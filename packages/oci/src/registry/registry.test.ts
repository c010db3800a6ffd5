import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mediaTypes, sha256Digest } from '../index.ts'
import { rawRequest } from '../testing/raw-http.ts'
import { allFiles, createRegistryWorld, waitFor } from '../testing/registry-world.ts'
import type { RegistryWorld } from '../testing/registry-world.ts'

describe('the distribution API', () => {
  let world: RegistryWorld
  let registry: Awaited<ReturnType<RegistryWorld['start']>>
  let bearer: string
  const names = ['a/b', 'a/c', 'blobs/uploads/x', 'manifests', 'list', 'ref', 'del', 'many']

  beforeAll(async () => {
    world = await createRegistryWorld()
    registry = await world.start()
    bearer = world.token(names.map((name) => ({ name, actions: ['pull', 'push'] })))
  })
  afterAll(() => world.close())

  const call = (method: string, path: string, body?: Uint8Array, headers: Record<string, string> = {}) =>
    rawRequest(registry.url, method, path, { bearer, headers, ...(body === undefined ? {} : { body }) })

  const pushBlob = async (repository: string, bytes: Uint8Array) => {
    const answer = await call('POST', `/v2/${repository}/blobs/uploads/?digest=${sha256Digest(bytes)}`, bytes)
    expect(answer.status).toBe(201)
    return { mediaType: 'x/y', digest: sha256Digest(bytes), size: bytes.byteLength }
  }

  const pushManifest = async (repository: string, reference: string, fields: object) => {
    const body = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.manifest, ...fields }))
    const answer = await call('PUT', `/v2/${repository}/manifests/${reference}`, body, {
      'content-type': mediaTypes.manifest,
    })
    return { answer, body, digest: sha256Digest(body) }
  }

  const openUpload = async (repository: string): Promise<string> => {
    const answer = await call('POST', `/v2/${repository}/blobs/uploads/`, Buffer.alloc(0))
    expect(answer.status).toBe(202)
    return answer.headers.location ?? ''
  }

  const leftovers = async () => [
    ...(await allFiles(join(registry.dir, 'uploads'))),
    ...(await allFiles(join(registry.dir, 'tmp'))),
  ]

  it('answers the base check', async () => {
    expect(await call('GET', '/v2/')).toMatchObject({ status: 200 })
  })

  it('takes a blob in chunks, checks their ranges and serves it whole or in part', async () => {
    const bytes = randomBytes(1000)
    const digest = sha256Digest(bytes)
    const location = await openUpload('a/b')
    const first = await call('PATCH', location, bytes.subarray(0, 400), { 'content-range': '0-399' })
    expect(first).toMatchObject({ status: 202, headers: { range: '0-399' } })
    const wrong = await call('PATCH', location, bytes.subarray(500), { 'content-range': '500-999' })
    expect(wrong).toMatchObject({ status: 416, code: 'BLOB_UPLOAD_INVALID', headers: { range: '0-399' } })
    const lying = await call('PATCH', location, bytes.subarray(400, 500), { 'content-range': '400-999' })
    expect(lying).toMatchObject({ status: 416 })
    expect(await call('GET', location)).toMatchObject({ status: 204, headers: { range: '0-399' } })
    const done = await call('PUT', `${location}?digest=${digest}`, bytes.subarray(400), {
      'content-range': '400-999',
    })
    expect(done).toMatchObject({ status: 201, headers: { 'docker-content-digest': digest } })
    expect(await call('GET', location)).toMatchObject({ status: 404, code: 'BLOB_UPLOAD_UNKNOWN' })

    expect((await call('GET', `/v2/a/b/blobs/${digest}`)).body.equals(bytes)).toBe(true)
    const head = await call('HEAD', `/v2/a/b/blobs/${digest}`)
    expect(head).toMatchObject({ status: 200, headers: { 'content-length': '1000' } })
    const part = await call('GET', `/v2/a/b/blobs/${digest}`, undefined, { range: 'bytes=990-' })
    expect(part).toMatchObject({ status: 206, headers: { 'content-range': 'bytes 990-999/1000' } })
    expect(part.body.equals(bytes.subarray(990))).toBe(true)
    expect(await call('GET', `/v2/a/b/blobs/${digest}`, undefined, { range: 'bytes=1000-' })).toMatchObject({
      status: 416,
    })
  })

  it('keeps what arrived of an upload that broke off, and goes on there, even after a restart', async () => {
    const bytes = randomBytes(300_000)
    const location = await openUpload('a/b')
    const socket = connect(registry.port, '127.0.0.1')
    socket.write(
      `PATCH ${location} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${bearer}\r\nContent-Length: 300000\r\n\r\n`,
    )
    socket.write(bytes.subarray(0, 100_000))
    const range = async () => (await call('GET', location)).headers.range
    await waitFor('the first part', async () => (await range()) === '0-99999')
    socket.destroy()
    const again = await world.start({ dir: registry.dir })
    const rest = await rawRequest(again.url, 'PATCH', location, { bearer, body: bytes.subarray(100_000) })
    expect(rest).toMatchObject({ status: 202, headers: { range: '0-299999' } })
    const done = await call('PUT', `${location}?digest=${sha256Digest(bytes)}`, Buffer.alloc(0))
    expect(done.status).toBe(201)
    expect((await call('GET', `/v2/a/b/blobs/${sha256Digest(bytes)}`)).body.equals(bytes)).toBe(true)
    expect(await leftovers()).toEqual([])
  })

  it('refuses a wrong digest and leaves nothing', async () => {
    const before = (await allFiles(registry.dir)).length
    const wrong = sha256Digest(Buffer.from('something else'))
    const body = Buffer.from('some bytes')
    const whole = await call('POST', `/v2/a/b/blobs/uploads/?digest=${wrong}`, body)
    expect(whole).toMatchObject({ status: 400, code: 'DIGEST_INVALID' })
    const location = await openUpload('a/b')
    expect(await call('PUT', `${location}?digest=${wrong}`, body)).toMatchObject({
      status: 400,
      code: 'DIGEST_INVALID',
    })
    expect(await call('HEAD', `/v2/a/b/blobs/${wrong}`)).toMatchObject({ status: 404 })
    expect(await call('GET', location)).toMatchObject({ status: 404 })
    expect((await allFiles(registry.dir)).length).toBe(before)
  })

  it('keeps an upload to the repository that opened it, and drops it on request', async () => {
    const location = await openUpload('a/b')
    expect(await call('GET', location.replace('a/b', 'a/c'))).toMatchObject({ status: 404 })
    expect(await call('DELETE', location)).toMatchObject({ status: 204 })
    expect(await call('GET', location)).toMatchObject({ status: 404 })
  })

  it('shows a blob only through a repository that holds it, and mounts it into another', async () => {
    const { digest } = await pushBlob('a/b', randomBytes(50))
    expect(await call('GET', `/v2/a/c/blobs/${digest}`)).toMatchObject({ status: 404, code: 'BLOB_UNKNOWN' })
    const denied = await rawRequest(registry.url, 'POST', `/v2/a/c/blobs/uploads/?mount=${digest}&from=a/b`, {
      bearer: world.token([{ name: 'a/c', actions: ['pull', 'push'] }]),
    })
    expect(denied.status).toBe(202)
    expect(await call('GET', `/v2/a/c/blobs/${digest}`)).toMatchObject({ status: 404 })
    expect(await call('POST', `/v2/a/c/blobs/uploads/?mount=${digest}&from=a/b`)).toMatchObject({
      status: 201,
    })
    expect(await call('GET', `/v2/a/c/blobs/${digest}`)).toMatchObject({ status: 200 })
  })

  it('takes the same blob from many at once', async () => {
    const bytes = randomBytes(500_000)
    const one = await world.start({ dir: registry.dir })
    const urls = [registry.url, one.url, registry.url, one.url, registry.url, one.url]
    const path = `/v2/many/blobs/uploads/?digest=${sha256Digest(bytes)}`
    const answers = await Promise.all(
      urls.map((url) => rawRequest(url, 'POST', path, { bearer, body: bytes })),
    )
    expect(answers.map((answer) => answer.status)).toEqual(urls.map(() => 201))
    expect((await call('GET', `/v2/many/blobs/${sha256Digest(bytes)}`)).body.equals(bytes)).toBe(true)
    const copies = (await allFiles(`${registry.dir}/blobs`)).filter((file) =>
      file.endsWith(sha256Digest(bytes).slice(7)),
    )
    expect(copies).toHaveLength(1)
  })

  it('takes repositories named like its own addresses', async () => {
    for (const name of ['blobs/uploads/x', 'manifests']) {
      const config = await pushBlob(name, Buffer.from('{}'))
      const { answer } = await pushManifest(name, 'v1', { config, layers: [] })
      expect(answer.status).toBe(201)
    }
  })

  it.each([
    '/v2/../../etc/passwd/manifests/v1',
    '/v2/a/../b/manifests/v1',
    '/v2/%2e%2e/manifests/v1',
    '/v2/a%2fb/manifests/v1',
    '/v2/A/manifests/v1',
    '/v2/a/b/manifests/..',
    '/v2/a/b/manifests/%2e%2e%2fx',
    '/v2/a/b/manifests/%',
    `/v2/${'a'.repeat(256)}/manifests/v1`,
    '/v2/_blobs/manifests/v1',
  ])('refuses the name in %s', async (path) => {
    expect(await call('GET', path)).toMatchObject({ status: 400, code: 'NAME_INVALID' })
  })

  it.each(['sha256:..', 'sha256:../../x', `sha512:${'a'.repeat(64)}`, `sha384:${'a'.repeat(96)}`, 'md5:abc'])(
    'refuses the digest %s',
    async (digest) => {
      const path = `/v2/a/b/blobs/${encodeURIComponent(digest)}`
      expect(await call('GET', path)).toMatchObject({ status: 400, code: 'DIGEST_INVALID' })
    },
  )

  it.each(['/v2/a/b/blobs/uploads/..', '/v2/a/b/blobs/uploads/%2e%2e', '/v2/a/b/blobs/uploads/x'])(
    'finds no upload at %s',
    async (path) => {
      expect(await call('GET', path)).toMatchObject({ status: 404, code: 'BLOB_UPLOAD_UNKNOWN' })
    },
  )

  it('refuses a manifest whose blobs are missing or have another size', async () => {
    const config = await pushBlob('a/b', Buffer.from('{}'))
    const missing = { mediaType: 'x/y', digest: sha256Digest(Buffer.from('nowhere')), size: 7 }
    const { answer, digest } = await pushManifest('a/b', 'v1', { config, layers: [missing] })
    expect(answer).toMatchObject({ status: 404, code: 'MANIFEST_BLOB_UNKNOWN' })
    expect(await call('GET', `/v2/a/b/manifests/${digest}`)).toMatchObject({
      status: 404,
      code: 'MANIFEST_UNKNOWN',
    })
    expect(await call('GET', '/v2/a/b/manifests/v1')).toMatchObject({ status: 404 })
    const lying = await pushManifest('a/b', 'v1', { config: { ...config, size: 3 }, layers: [] })
    expect(lying.answer).toMatchObject({ status: 400, code: 'MANIFEST_INVALID' })
  })

  it('refuses an oversized manifest, announced or not', async () => {
    const body = Buffer.alloc(4 * 1024 * 1024 + 1, 32)
    const type = { 'content-type': mediaTypes.manifest }
    const path = '/v2/a/b/manifests/big'
    expect(await call('PUT', path, body, type)).toMatchObject({ status: 413, code: 'SIZE_INVALID' })
    const unannounced = await fetch(`${registry.url}${path}`, {
      method: 'PUT',
      headers: { ...type, authorization: `Bearer ${bearer}` },
      body: new Blob([body]).stream(),
      duplex: 'half',
    } as RequestInit)
    expect(unannounced.status).toBe(413)
    await unannounced.body?.cancel()
  })

  it.each([
    '',
    'null',
    '[]',
    '{"schemaVersion":1}',
    '{"schemaVersion":2}',
    '{"schemaVersion":2,"config":{},"layers":[]}',
  ])('refuses the manifest %j', async (text) => {
    const answer = await call('PUT', '/v2/a/b/manifests/bad', Buffer.from(text), {
      'content-type': mediaTypes.manifest,
    })
    expect(answer).toMatchObject({ status: 400, code: 'MANIFEST_INVALID' })
  })

  it('refuses a manifest under another digest', async () => {
    const config = await pushBlob('a/b', Buffer.from('{}'))
    const { answer } = await pushManifest('a/b', sha256Digest(Buffer.from('x')), { config, layers: [] })
    expect(answer).toMatchObject({ status: 400, code: 'DIGEST_INVALID' })
  })

  it('lists tags in pages', async () => {
    const config = await pushBlob('list', Buffer.from('{}'))
    for (const tag of ['c', 'a', 'b']) await pushManifest('list', tag, { config, layers: [] })
    const page = async (path: string) => {
      const answer = await call('GET', path)
      const next = /<([^>]+)>/.exec(String(answer.headers['link'] ?? ''))?.[1]
      return { tags: (JSON.parse(answer.body.toString()) as { tags: string[] }).tags, next }
    }
    expect(await page('/v2/list/tags/list')).toEqual({ tags: ['a', 'b', 'c'], next: undefined })
    const first = await page('/v2/list/tags/list?n=2')
    expect(first.tags).toEqual(['a', 'b'])
    expect(await page(first.next ?? '')).toEqual({ tags: ['c'], next: undefined })
    expect(await call('GET', '/v2/a/c/none/tags/list')).toMatchObject({ status: 403 })
  })

  it('lists what refers to a manifest, also by type', async () => {
    const config = await pushBlob('ref', Buffer.from('{}'))
    const subject = await pushManifest('ref', 'v1', { config, layers: [] })
    const descriptor = {
      mediaType: mediaTypes.manifest,
      digest: subject.digest,
      size: subject.body.byteLength,
    }
    const signature = await pushManifest('ref', 'sig', {
      artifactType: 'x/signature',
      config,
      layers: [],
      subject: descriptor,
    })
    expect(signature.answer.headers['oci-subject']).toBe(subject.digest)
    const list = async (query: string) => {
      const answer = await call('GET', `/v2/ref/referrers/${subject.digest}${query}`)
      return (JSON.parse(answer.body.toString()) as { manifests: { digest: string }[] }).manifests.map(
        (each) => each.digest,
      )
    }
    expect(await list('')).toEqual([signature.digest])
    expect(await list('?artifactType=x/signature')).toEqual([signature.digest])
    expect(await list('?artifactType=x/other')).toEqual([])
  })

  it('deletes a manifest with its tags and its place among referrers, when authorised', async () => {
    const authorize = async () => ({ ok: true }) as const
    const open = await world.start({ dir: registry.dir, authorize, deletes: true })
    const config = await pushBlob('del', Buffer.from('{}'))
    const { digest } = await pushManifest('del', 'v1', { config, layers: [] })
    await pushManifest('del', 'v2', { config, layers: [] })
    expect(await rawRequest(open.url, 'DELETE', '/v2/del/manifests/v1')).toMatchObject({ status: 202 })
    expect(await call('GET', '/v2/del/manifests/v1')).toMatchObject({ status: 404 })
    expect(await call('GET', '/v2/del/manifests/v2')).toMatchObject({ status: 200 })
    expect(await rawRequest(open.url, 'DELETE', `/v2/del/manifests/${digest}`)).toMatchObject({ status: 202 })
    expect(await call('GET', '/v2/del/manifests/v2')).toMatchObject({ status: 404 })
    expect(await rawRequest(open.url, 'DELETE', `/v2/del/manifests/${digest}`)).toMatchObject({ status: 404 })
  })

  it('answers unknown addresses and methods with an error body', async () => {
    expect(await call('GET', '/v2/a/b/nothing')).toMatchObject({ status: 404, code: 'UNSUPPORTED' })
    expect(await call('POST', '/v2/a/b/manifests/v1')).toMatchObject({ status: 405, code: 'UNSUPPORTED' })
  })

  it.each([
    ['manifests/v1', 'GET, HEAD, PUT'],
    [`manifests/sha256:${'0'.repeat(64)}`, 'GET, HEAD, PUT'],
    [`blobs/sha256:${'0'.repeat(64)}`, 'GET, HEAD'],
  ])(
    'answers DELETE of %s with 405 and no word of it in Allow, since deletion is off',
    async (path, allow) => {
      for (const options of [{}, { bearer }]) {
        const answer = await rawRequest(registry.url, 'DELETE', `/v2/a/b/${path}`, options)
        expect(answer).toMatchObject({ status: 405, code: 'UNSUPPORTED', headers: { allow } })
      }
      expect((await call('PATCH', `/v2/a/b/${path}`)).headers.allow).toBe(allow)
    },
  )
})
