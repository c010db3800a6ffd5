import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Journal, readLines } from './journal.ts'

interface Entry {
  key: string
  value: number
}

let dir: string
let file: string

beforeEach(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), 'tenon-journal-'))
  file = path.join(dir, 'journal.jsonl')
})
afterEach(() => rm(dir, { recursive: true, force: true }))

async function open(compactFromBytes?: number) {
  const state = new Map<string, number>()
  const applied: Entry[] = []
  const journal = await Journal.open<Entry>({
    file,
    apply: (entry) => {
      applied.push(entry)
      state.set(entry.key, entry.value)
    },
    snapshot: () => [...state].map(([key, value]) => ({ key, value })),
    ...(compactFromBytes === undefined ? {} : { compactFromBytes }),
  })
  return { journal, state, applied }
}

async function filled(count: number): Promise<Buffer> {
  const { journal } = await open()
  await Promise.all(Array.from({ length: count }, (_, value) => journal.append({ key: `k${value}`, value })))
  await journal.close()
  return readFile(file)
}

describe('the journal', () => {
  it('gives back everything it acknowledged, in order', async () => {
    await filled(50)
    const { journal, applied } = await open()
    expect(applied.map(({ value }) => value)).toEqual(Array.from({ length: 50 }, (_, index) => index))
    expect(journal.problems).toEqual([])
    await journal.close()
  })

  it('loses at most the torn last line, wherever it was torn, and goes on after it', async () => {
    const whole = await filled(8)
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: whole.byteLength }), async (length) => {
        await writeFile(file, whole.subarray(0, length))
        const lines = whole.subarray(0, length).toString().split('\n').length - 1
        const first = await open()
        expect(first.applied).toHaveLength(lines)
        expect(first.journal.problems).toEqual([])
        await first.journal.append({ key: 'after', value: 99 })
        await first.journal.close()
        const second = await open()
        expect(second.applied).toHaveLength(lines + 1)
        expect(second.state.get('after')).toBe(99)
        expect(second.journal.problems).toEqual([])
        await second.journal.close()
      }),
      { numRuns: 40 },
    )
  })

  it('reports a line that was changed in the middle, keeps a copy, and reads the others', async () => {
    const whole = await filled(5)
    await writeFile(file, whole.toString().replace('"value":2', '"value":7'))
    const { journal, applied } = await open()
    expect(journal.problems).toEqual([{ line: 3, message: expect.any(String) }])
    expect(applied.map(({ value }) => value)).toEqual([0, 1, 3, 4])
    expect(await readFile(`${file}.broken`, 'utf8')).toContain('"value":7')
    await journal.close()
  })

  it('never takes a flipped bit for an entry', async () => {
    const whole = await filled(6)
    const original = readLines<Entry>(whole).entries.map((entry) => JSON.stringify(entry))
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: whole.byteLength - 1 }),
        fc.integer({ min: 0, max: 7 }),
        (at, bit) => {
          const changed = Buffer.from(whole)
          changed[at] = changed[at]! ^ (1 << bit)
          const read = readLines<Entry>(changed)
          for (const entry of read.entries) expect(original).toContain(JSON.stringify(entry))
          expect(read.entries.length).toBeGreaterThanOrEqual(4)
        },
      ),
      { numRuns: 300 },
    )
  })

  it('is rewritten with what still counts when it has grown', async () => {
    const { journal, state } = await open(2000)
    for (let value = 0; value < 300; value++) await journal.append({ key: `k${value % 3}`, value })
    expect(journal.bytes).toBeLessThan(4000)
    await journal.close()
    const again = await open(2000)
    expect(again.state).toEqual(state)
    await again.journal.close()
  })

  it('writes a note within a second, or when it is closed', async () => {
    const { journal } = await open()
    journal.note({ key: 'noted', value: 1 })
    await journal.close()
    const again = await open()
    expect(again.state.get('noted')).toBe(1)
    await again.journal.close()
  })

  it('takes nothing any more once it is closed, and says so with a code', async () => {
    const { journal } = await open()
    await journal.close()
    await expect(journal.append({ key: 'late', value: 1 })).rejects.toMatchObject({ code: 'journal_failed' })
  })

  it('keeps a torn line from swallowing the next one', async () => {
    await filled(2)
    await appendFile(file, '0123456789abcdef {"key":"torn')
    const { journal, applied } = await open()
    expect(applied).toHaveLength(2)
    await journal.append({ key: 'next', value: 3 })
    await journal.close()
    expect(readLines<Entry>(await readFile(file)).entries).toHaveLength(3)
  })
})
