import { randomBytes } from 'node:crypto'
import { cp, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import * as fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openInstallStore } from './file-store.ts'
import { KEPT_VERSIONS, STORE_KINDS, type InstallStore } from './install-store.ts'

const key = randomBytes(32)
let base: string
let dir: string
let store: InstallStore

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'tenon-store-'))
  dir = join(base, 'store')
  store = await openInstallStore({ dir, key })
})
afterEach(async () => {
  await store.close()
  await rm(base, { recursive: true })
})

const bytes = (text: string) => new TextEncoder().encode(text)
const text = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value)

async function filesBelow(folder: string): Promise<string[]> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true })
  return found.filter((f) => f.isFile()).map((f) => join(f.parentPath, f.name))
}
const recordFiles = () => filesBelow(join(dir, 'entries'))

async function reopen(): Promise<void> {
  await store.close()
  store = await openInstallStore({ dir, key })
}

describe('what is put', () => {
  it('is there, also after a restart, and apart for every kind', async () => {
    await store.put('output', 'web', bytes('an output'))
    await store.put('state', 'web', bytes('a state'))
    await reopen()
    expect(text(await store.get('output', 'web'))).toBe('an output')
    expect(text(await store.get('state', 'web'))).toBe('a state')
    expect(await store.get('secret', 'web')).toBeUndefined()
  })

  it('gets a version; earlier ones stay readable, the oldest past the limit go', async () => {
    for (let i = 1; i <= KEPT_VERSIONS + 3; i++) {
      expect(await store.put('state', 'db', bytes(`v${i}`))).toEqual({ version: i })
    }
    const history = await store.history('state', 'db')
    expect(history.map((h) => h.version)).toEqual(Array.from({ length: KEPT_VERSIONS }, (_, i) => i + 4))
    expect(history.every((h) => Math.abs(Date.now() - Date.parse(h.at)) < 60_000)).toBe(true)
    expect(text(await store.getVersion('state', 'db', 4))).toBe('v4')
    expect(await store.getVersion('state', 'db', 3)).toBeUndefined()
    expect(await recordFiles()).toHaveLength(KEPT_VERSIONS)
  })

  it('is erased with all its versions by remove, and its versions go on growing', async () => {
    await store.put('secret', 'token', bytes('one'))
    await store.put('secret', 'token', bytes('two'))
    await store.remove('secret', 'token')
    await store.remove('secret', 'token')
    expect(await store.get('secret', 'token')).toBeUndefined()
    expect(await store.getVersion('secret', 'token', 1)).toBeUndefined()
    expect(await store.history('secret', 'token')).toEqual([])
    expect(await store.list('secret')).toEqual([])
    expect(await recordFiles()).toHaveLength(1)
    expect(await store.put('secret', 'token', bytes('three'))).toEqual({ version: 4 })
    expect(await recordFiles()).toHaveLength(1)
  })

  it('leaves neither names nor values on the disk', async () => {
    await store.put('secret', 'the-plain-name', bytes('the-plain-value'))
    const files = await filesBelow(dir)
    const content = Buffer.concat(await Promise.all(files.map((f) => readFile(f)))).toString('latin1')
    for (const plain of ['the-plain', 'secret']) {
      expect(content).not.toContain(plain)
      expect(files.join('\n').replaceAll(dir, '')).not.toContain(plain)
    }
    for (const file of files) expect((await stat(file)).mode & 0o077).toBe(0)
  })

  it('takes concurrent puts one after the other', async () => {
    const versions = await Promise.all(
      Array.from({ length: 15 }, (_, i) => store.put('state', 'db', bytes(String(i)))),
    )
    expect(versions.map((v) => v.version)).toEqual(Array.from({ length: 15 }, (_, i) => i + 1))
    expect(text(await store.get('state', 'db'))).toBe('14')
  })

  it('refuses a name that is empty, too long or not valid text', async () => {
    for (const name of ['', 'x'.repeat(513), '\ud800']) {
      await expect(store.put('meta', name, bytes('x'))).rejects.toMatchObject({ code: 'store_bad_name' })
    }
  })

  it(
    'agrees with a plain map over any sequence of calls, restarts included',
    { timeout: 60_000 },
    async () => {
      const name = fc.constantFrom('a', '../../etc/passwd', 'ü/\0', 'x'.repeat(512), '__proto__')
      const call = fc.oneof(
        { weight: 5, arbitrary: fc.record({ put: fc.uint8Array({ maxLength: 50 }), name }) },
        { weight: 2, arbitrary: fc.record({ remove: fc.constant(true), name }) },
        { weight: 1, arbitrary: fc.constant('reopen' as const) },
      )
      const kind = fc.constantFrom(...STORE_KINDS)
      await fc.assert(
        fc.asyncProperty(kind, fc.array(call, { maxLength: 12 }), async (k, calls) => {
          for (const { name: left } of await store.list(k)) await store.remove(k, left)
          const model = new Map<string, Uint8Array>()
          for (const c of calls) {
            if (c === 'reopen') await reopen()
            else if ('put' in c) model.set(c.name, (await store.put(k, c.name, c.put), c.put))
            else model.delete((await store.remove(k, c.name), c.name))
          }
          expect((await store.list(k)).map((e) => e.name)).toEqual([...model.keys()].toSorted())
          for (const [n, value] of model) expect(await store.get(k, n)).toEqual(value)
        }),
        { numRuns: 15 },
      )
    },
  )
})

describe('what was changed on disk', () => {
  it('is refused at every single byte, by name', { timeout: 60_000 }, async () => {
    await store.put('state', 'db', bytes('content'))
    const [file] = await recordFiles()
    const good = await readFile(file!)
    for (let i = 0; i < good.length; i++) {
      const bad = Buffer.from(good)
      bad[i]! ^= 1 << (i % 8)
      await writeFile(file!, bad)
      await expect(store.get('state', 'db')).rejects.toMatchObject({
        code: 'store_corrupt',
        message: expect.stringContaining('state "db", version 1') as unknown,
      })
    }
    await writeFile(file!, good)
    expect(text(await store.get('state', 'db'))).toBe('content')
  })

  it('is refused when cut short at any length', { timeout: 60_000 }, async () => {
    await store.put('state', 'db', bytes('content'))
    const [file] = await recordFiles()
    const good = await readFile(file!)
    for (let length = 0; length < good.length; length++) {
      await writeFile(file!, good.subarray(0, length))
      await expect(store.get('state', 'db')).rejects.toMatchObject({ code: 'store_corrupt' })
    }
  })

  it('is refused as another name, another kind, another version, or after a removal', async () => {
    await store.put('state', 'a', bytes('a'))
    const [a] = await recordFiles()
    await store.put('state', 'b', bytes('b'))
    await store.put('output', 'a', bytes('c'))
    for (const other of (await recordFiles()).filter((f) => f !== a)) await cp(a!, other)
    await expect(store.get('state', 'b')).rejects.toMatchObject({ code: 'store_corrupt' })
    await expect(store.get('output', 'a')).rejects.toMatchObject({ code: 'store_corrupt' })
    await expect(store.list('output')).rejects.toMatchObject({ code: 'store_corrupt' })
    await cp(a!, join(a!, '..', '7'))
    await expect(store.get('state', 'a')).rejects.toMatchObject({ code: 'store_corrupt' })
    await rm(join(a!, '..', '7'))
    expect(text(await store.get('state', 'a'))).toBe('a')
    await store.remove('state', 'a')
    const [removal] = (await recordFiles()).filter((f) => f.endsWith('.removed'))
    await rename(removal!, join(removal!, '..', basename(removal!, '.removed')))
    await expect(store.get('state', 'a')).rejects.toMatchObject({ code: 'store_corrupt' })
  })

  it('does not keep other things from being read', async () => {
    await store.put('state', 'a', bytes('a'))
    await writeFile((await recordFiles())[0]!, 'rubbish')
    await store.put('state', 'b', bytes('b'))
    await reopen()
    expect(text(await store.get('state', 'b'))).toBe('b')
    await store.put('state', 'a', bytes('new'))
    expect(text(await store.get('state', 'a'))).toBe('new')
  })
})

describe('opening', () => {
  it('refuses another key and leaves everything as it is', async () => {
    await store.put('state', 'db', bytes('content'))
    await store.close()
    await expect(openInstallStore({ dir, key: randomBytes(32) })).rejects.toMatchObject({
      code: 'store_wrong_key',
    })
    await expect(openInstallStore({ dir, key: randomBytes(31) })).rejects.toMatchObject({
      code: 'key_malformed',
    })
    store = await openInstallStore({ dir, key })
    expect(text(await store.get('state', 'db'))).toBe('content')
  })

  it('refuses a folder whose mark is damaged or gone', async () => {
    await store.put('state', 'db', bytes('content'))
    await store.close()
    const mark = join(dir, 'store.json')
    const good = await readFile(mark)
    await writeFile(mark, '{}')
    await expect(openInstallStore({ dir, key })).rejects.toMatchObject({ code: 'store_corrupt' })
    await rm(mark)
    await expect(openInstallStore({ dir, key })).rejects.toMatchObject({ code: 'store_corrupt' })
    await writeFile(mark, good)
    store = await openInstallStore({ dir, key })
  })

  it('is for one at a time', async () => {
    await expect(openInstallStore({ dir, key })).rejects.toMatchObject({
      code: 'store_locked',
      message: expect.stringContaining(`process ${process.pid}`) as unknown,
    })
    await store.close()
    const opened = await Promise.allSettled([1, 2, 3, 4].map(() => openInstallStore({ dir, key })))
    const won = opened.flatMap((o) => (o.status === 'fulfilled' ? [o.value] : []))
    expect(won).toHaveLength(1)
    store = won[0]!
  })

  it('takes over the lock of a process that is gone, also when its number is in use again', async () => {
    await store.close()
    const gone = [
      JSON.stringify({ pid: 2 ** 22 + 1, life: null, nonce: '' }),
      JSON.stringify({ pid: process.pid, life: 'another-boot/1', nonce: '' }),
      'rubbish',
    ]
    for (const lock of gone) {
      await writeFile(join(dir, 'lock'), lock)
      store = await openInstallStore({ dir, key })
      await store.close()
    }
    expect((await readdir(dir)).toSorted()).toEqual(['entries', 'store.json', 'tmp'])
  })

  it('finishes a removal that a crash left half done', async () => {
    await store.put('secret', 'token', bytes('value'))
    const [file] = await recordFiles()
    await cp(file!, join(base, 'kept'))
    await store.remove('secret', 'token')
    await cp(join(base, 'kept'), file!)
    expect(await store.get('secret', 'token')).toBeUndefined()
    await reopen()
    expect((await recordFiles()).map((f) => basename(f))).toEqual(['2.removed'])
  })

  it('is needed again after close', async () => {
    await store.close()
    await store.close()
    await expect(store.get('state', 'db')).rejects.toMatchObject({ code: 'store_closed' })
  })
})
