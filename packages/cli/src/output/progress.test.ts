import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { withProgress } from './progress.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Something that lasts, and what is written meanwhile. */
function begin(isTTY: boolean) {
  const written: string[] = []
  const stderr = { isTTY, write: (text: string) => void written.push(text) }
  let size = 0
  let resolve: (value: string) => void = () => undefined
  const lasting = new Promise<string>((done) => (resolve = done))
  const work = withProgress({ stderr } as never, () => `packing the source of web (${size} MB)`, lasting)
  return { written, grow: (more: number) => (size += more), end: () => (resolve('packed'), work) }
}

it('says nothing of what is done within a second', async () => {
  const { written, end } = begin(false)
  await vi.advanceTimersByTimeAsync(990)
  expect(await end()).toBe('packed')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(written).toEqual([])
})

it('has a line every few seconds where there is no terminal, with what was done by then', async () => {
  const { written, grow, end } = begin(false)
  await vi.advanceTimersByTimeAsync(1_100)
  grow(12)
  await vi.advanceTimersByTimeAsync(5_000)
  await end()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(written).toEqual(['packing the source of web (0 MB)\n', 'packing the source of web (12 MB)\n'])
})

it('moves on a terminal, and leaves nothing behind', async () => {
  const { written, end } = begin(true)
  await vi.advanceTimersByTimeAsync(1_300)
  await end()
  expect(written.length).toBeGreaterThan(2)
  expect(written[0]).toContain('- packing the source of web')
  expect(written[1]).toContain('\\ packing')
  expect(written.at(-1)).toBe('\r\u001B[K')
})
