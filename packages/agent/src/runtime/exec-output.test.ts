import { describe, expect, it } from 'vitest'
import { createExecOutput } from './exec-output.ts'

describe('what a command prints', () => {
  it('comes in order, and its source waits for a slow reader', async () => {
    const holds: boolean[] = []
    const output = createExecOutput((isFull) => holds.push(isFull))
    const half = Buffer.alloc(600_000)
    output.push({ stream: 'stdout', bytes: half })
    expect(holds).toEqual([])
    output.push({ stream: 'stderr', bytes: half })
    expect(holds).toEqual([true])
    output.end()
    const streams: string[] = []
    for await (const { stream } of output) streams.push(stream)
    expect(streams).toEqual(['stdout', 'stderr'])
    expect(holds).toEqual([true, false])
  })
})
