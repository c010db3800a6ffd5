import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loadStoreKey } from './store-key.ts'

let base: string
let file: string
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'tenon-key-'))
  file = join(base, 'keys', 'store.key')
})
afterEach(() => rm(base, { recursive: true }))

describe('the store key', () => {
  it('is made on first use when asked to, for its owner alone, and is the same ever after', async () => {
    const first = await loadStoreKey({ file, create: true })
    expect(first.byteLength).toBe(32)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(await loadStoreKey({ file, create: true })).toEqual(first)
    expect(await loadStoreKey({ file })).toEqual(first)
    expect(await readdir(join(base, 'keys'))).toEqual(['store.key'])
  })

  it('is one key for everybody who makes it at once', async () => {
    const keys = await Promise.all(Array.from({ length: 8 }, () => loadStoreKey({ file, create: true })))
    expect(new Set(keys.map((k) => Buffer.from(k).toString('hex'))).size).toBe(1)
  })

  it('is never made unasked', async () => {
    await expect(loadStoreKey({ file })).rejects.toMatchObject({ code: 'key_missing' })
  })

  it('from the environment wins over the file', async () => {
    const env = randomBytes(32)
    await loadStoreKey({ file, create: true })
    expect(await loadStoreKey({ file, env: env.toString('base64') })).toEqual(new Uint8Array(env))
  })

  it('is refused when others may read it, with the way out', async () => {
    await loadStoreKey({ file, create: true })
    await chmod(file, 0o640)
    await expect(loadStoreKey({ file })).rejects.toMatchObject({
      code: 'key_exposed',
      message: expect.stringContaining('chmod 600') as unknown,
    })
  })

  it('is refused when it is not 32 bytes of base64, without being repeated in the error', async () => {
    for (const env of ['nonsense!', randomBytes(31).toString('base64'), randomBytes(32).toString('hex')]) {
      await expect(loadStoreKey({ file, env })).rejects.toMatchObject({ code: 'key_malformed' })
      await expect(loadStoreKey({ file, env })).rejects.not.toThrow(env)
    }
    await loadStoreKey({ file, create: true })
    await writeFile(file, (await readFile(file, 'utf8')).slice(0, 20))
    await expect(loadStoreKey({ file, create: true })).rejects.toMatchObject({ code: 'key_malformed' })
  })
})
