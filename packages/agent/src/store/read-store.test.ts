import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openInstallStore } from './file-store.ts'
import type { InstallStore, StoreReader } from './install-store.ts'
import { readStore } from './read-store.ts'

const key = randomBytes(32)
const bytes = (text: string) => new TextEncoder().encode(text)

let base: string
let dir: string
let store: InstallStore
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'tenon-read-'))
  dir = join(base, 'store')
  store = await openInstallStore({ dir, key })
})
afterEach(async () => {
  await store.close()
  await rm(base, { recursive: true })
})

async function numberIn(reader: StoreReader, name: string): Promise<number> {
  return Number(new TextDecoder().decode(await reader.get('state', name)))
}

describe('a store read while another process has it open', () => {
  it('is read without its lock and left as it was', async () => {
    await store.put('secret', 'a', bytes('1'))
    const before = await readdir(dir)
    const { mtimeMs } = await stat(dir)
    const names = await readStore({ dir, key, read: async (reader) => reader.list('secret') })
    expect(names).toEqual([{ name: 'a', version: 1 }])
    expect(await readdir(dir)).toEqual(before)
    expect((await stat(dir)).mtimeMs).toBe(mtimeMs)
  })

  it('shows one moment: of two values written one after the other, the second is never ahead', async () => {
    const writing = { on: true }
    const writer = (async () => {
      for (let n = 1; writing.on; n++) {
        await store.put('state', 'first', bytes(String(n)))
        await store.put('state', 'second', bytes(String(n)))
        await new Promise((resolve) => setTimeout(resolve, 3))
      }
    })()
    try {
      for (let round = 0; round < 20; round++) {
        const [second, first] = await readStore({
          dir,
          key,
          attempts: 2000,
          read: async (reader) =>
            [await numberIn(reader, 'second'), await numberIn(reader, 'first')] as const,
        })
        expect(first - second === 0 || first - second === 1 || Number.isNaN(second)).toBe(true)
      }
    } finally {
      writing.on = false
      await writer
    }
  })

  it('that never rests is given up with a code that says so', async () => {
    const restless = async () => void (await store.put('state', 'x', bytes('y')))
    await expect(readStore({ dir, key, attempts: 2, read: restless })).rejects.toMatchObject({
      code: 'store_busy',
    })
  })

  it('is refused with another key, when it is no store, and while a restore is under way', async () => {
    const read = async () => undefined
    await expect(readStore({ dir, key: randomBytes(32), read })).rejects.toMatchObject({
      code: 'store_wrong_key',
    })
    await expect(readStore({ dir: base, key, read })).rejects.toMatchObject({ code: 'store_corrupt' })
    await writeFile(join(dir, 'restoring'), '')
    await expect(readStore({ dir, key, read })).rejects.toThrow(/restore was cut short/)
    await rm(join(dir, 'restoring'))
  })

  it('tells a file that is damaged for good from one that moved on', async () => {
    await store.put('secret', 'a', bytes('1'))
    const kinds = join(dir, 'entries')
    const [kind = ''] = await readdir(kinds)
    const [name = ''] = await readdir(join(kinds, kind))
    await writeFile(join(kinds, kind, name, '1'), 'nonsense')
    const read = (reader: StoreReader) => reader.get('secret', 'a')
    await expect(readStore({ dir, key, read })).rejects.toMatchObject({ code: 'store_corrupt' })
  })
})
