import { mkdtemp, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createFileStorage, sha256Digest } from '../index.ts'
import { allFiles } from '../testing/registry-world.ts'

describe('a folder as storage', () => {
  let dir: string

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'tenon-storage-'))
  })
  afterEach(() => rm(dir, { recursive: true, force: true }))

  const bytes = Buffer.from('content')
  const digest = sha256Digest(bytes)

  it('serves what an earlier process stored', async () => {
    const before = await createFileStorage(dir)
    const id = await before.createUpload('a')
    await before.appendUpload('a', id, 0, Readable.from([bytes]))
    await before.commitUpload('a', id, digest)
    const after = await createFileStorage(dir)
    expect(await after.statBlob('a', digest)).toEqual({ size: bytes.byteLength })
    expect(await buffer(await after.openBlob('a', digest))).toEqual(bytes)
    expect(await after.statBlob('a/b', digest)).toBeUndefined()
    await expect(after.openBlob('b', digest)).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('lets two processes take turns on one upload', async () => {
    const stores = [await createFileStorage(dir), await createFileStorage(dir)] as const
    const id = await stores[0].createUpload('a')
    let offset = 0
    for (const [index, byte] of bytes.entries()) {
      const store = stores[index % 3 === 0 ? 0 : 1]
      offset = await store.appendUpload('a', id, offset, Readable.from([Buffer.from([byte])]))
    }
    await stores[0].commitUpload('a', id, digest)
    expect(await buffer(await stores[1].openBlob('a', digest))).toEqual(bytes)
    expect(await allFiles(join(dir, 'uploads'))).toEqual([])
  })

  it('never publishes bytes that a second writer slips into an upload', async () => {
    const stores = [await createFileStorage(dir), await createFileStorage(dir)] as const
    const id = await stores[0].createUpload('a')
    async function* slow(): AsyncGenerator<Buffer> {
      yield bytes.subarray(0, 3)
      await stores[1].appendUpload('a', id, 3, Readable.from([Buffer.from('evil')]))
      yield bytes.subarray(3)
    }
    await stores[0].appendUpload('a', id, 0, slow())
    await expect(stores[0].commitUpload('a', id, digest)).rejects.toMatchObject({ code: 'DIGEST_MISMATCH' })
    expect(await stores[0].statBlob('a', digest)).toBeUndefined()
    expect(await allFiles(dir)).toEqual([])
  })

  it('lets a newer request take an upload over from an older one that has fallen silent', async () => {
    const store = await createFileStorage(dir)
    const id = await store.createUpload('a')
    let isSilent = (): void => {}
    const silence = new Promise<void>((resolve) => (isSilent = resolve))
    async function* silent(): AsyncGenerator<Buffer> {
      yield bytes.subarray(0, 3)
      isSilent()
      await new Promise(() => {})
    }
    const older = store.appendUpload('a', id, 0, silent())
    const outcome = older.catch((error: unknown) => error)
    await silence
    const wrong = store.appendUpload('a', id, 1, Readable.from([bytes]))
    await expect(wrong).rejects.toMatchObject({ code: 'RANGE_INVALID' })
    expect(await outcome).toMatchObject({ code: 'RANGE_INVALID' })
    expect(await store.uploadSize('a', id)).toBe(3)
    expect(await store.appendUpload('a', id, 3, Readable.from([bytes.subarray(3)]))).toBe(bytes.byteLength)
    await store.commitUpload('a', id, digest)
  })

  it('removes uploads and temporary files that nobody touched for a day, and no others', async () => {
    const store = await createFileStorage(dir)
    const stale = await store.createUpload('a')
    await store.appendUpload('a', stale, 0, Readable.from([bytes]))
    const fresh = await store.createUpload('a')
    await store.appendUpload('a', fresh, 0, Readable.from([bytes]))
    const old = new Date(Date.now() - 25 * 60 * 60 * 1000)
    for (const file of await allFiles(join(dir, 'uploads'))) {
      if (file.includes(stale))
        await Promise.all([utimes(file, old, old), utimes(join(file, '..'), old, old)])
    }
    const next = await createFileStorage(dir)
    await expect(next.uploadSize('a', stale)).rejects.toMatchObject({ code: 'UPLOAD_UNKNOWN' })
    expect(await next.uploadSize('a', fresh)).toBe(bytes.byteLength)
  })

  it('moves a tag in one step and forgets it with its manifest', async () => {
    const store = await createFileStorage(dir)
    const put = async (text: string) => {
      const manifest = { digest: sha256Digest(Buffer.from(text)), mediaType: 'x/y', bytes: Buffer.from(text) }
      await store.putManifest('a', manifest, { tag: 'v1' })
      return manifest.digest
    }
    const first = await put('one')
    const second = await put('two')
    expect(await store.resolveTag('a', 'v1')).toBe(second)
    await store.deleteManifest('a', first)
    expect(await store.resolveTag('a', 'v1')).toBe(second)
    await store.deleteManifest('a', second)
    expect(await store.listTags('a')).toEqual([])
    expect(await store.listTags('none')).toBeUndefined()
  })
})
