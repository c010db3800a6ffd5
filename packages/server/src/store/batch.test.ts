import { describe, expect, test } from 'vitest'
import { createBatcher } from './batch.ts'

describe('a batcher', () => {
  test('does lone work at once, and what comes meanwhile together', async () => {
    const batches: number[][] = []
    let open = () => {}
    const gate = new Promise<void>((resolve) => (open = resolve))
    const double = createBatcher<number, number>(10, async (items) => {
      batches.push([...items])
      if (batches.length === 1) await gate
      return items.map((item) => item * 2)
    })
    const results = [1, 2, 3].map((item) => double(item))
    expect(batches).toEqual([[1]])
    open()
    expect(await Promise.all(results)).toEqual([2, 4, 6])
    expect(batches).toEqual([[1], [2, 3]])
  })

  test('never takes more than its limit', async () => {
    const sizes: number[] = []
    const work = createBatcher<number, number>(4, async (items) => {
      sizes.push(items.length)
      return items
    })
    await Promise.all(Array.from({ length: 10 }, (_, i) => work(i)))
    expect(sizes).toEqual([1, 4, 4, 1])
  })

  test('lets one bad item fail alone', async () => {
    const work = createBatcher<number, number>(10, async (items) => {
      if (items.includes(3)) throw new Error('three is bad')
      return items
    })
    const settled = await Promise.allSettled([1, 2, 3, 4].map((item) => work(item)))
    expect(settled.map((s) => s.status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
  })

  test('does not ask a database that is away again for every item', async () => {
    let calls = 0
    const work = createBatcher<number, number>(10, async (items) => {
      calls += 1
      if (calls === 1) return items
      throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' })
    })
    const settled = await Promise.allSettled([1, 2, 3].map((item) => work(item)))
    expect(settled.map((s) => s.status)).toEqual(['fulfilled', 'rejected', 'rejected'])
    expect(calls).toBe(2)
  })
})
