import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createSourceLimit } from '../index.ts'
import { createProgress, createRateMeter } from './progress.ts'
import type { CopyProgress } from './progress.ts'
import { createBucket } from './source-limit.ts'

describe('a limit on a source', () => {
  it('never lets more through than the burst and the rate allow, whatever is asked for', () => {
    const steps = fc.array(fc.record({ bytes: fc.integer({ min: 1, max: 500 }), ms: fc.nat(300) }), {
      maxLength: 50,
    })
    fc.assert(
      fc.property(steps, (asked) => {
        const bucket = createBucket({ rate: 1000, burst: 200, now: 0 })
        let now = 0
        let passed = 0
        for (const { bytes, ms } of asked) {
          now += ms
          now += bucket.take(bytes, now)
          passed += bytes
          expect(passed).toBeLessThanOrEqual(200 + now + 0.001)
        }
      }),
    )
  })

  it('lets in so many at a time, in order, and forgets who is canceled while waiting', async () => {
    const limit = createSourceLimit({ concurrent: 2 })
    const first = await limit.enter(undefined)
    const second = await limit.enter(undefined)
    const order: string[] = []
    const cancel = new AbortController()
    const canceled = limit.enter(cancel.signal)
    const third = limit.enter(undefined).then((leave) => {
      order.push('third')
      return leave
    })
    cancel.abort()
    await expect(canceled).rejects.toMatchObject({ code: 'ABORTED' })
    expect(order).toEqual([])
    first()
    first()
    const leave = await third
    const fourth = limit.enter(undefined).then(() => order.push('fourth'))
    await Promise.resolve()
    expect(order).toEqual(['third'])
    second()
    await fourth
    leave()
    await expect(limit.enter(AbortSignal.abort())).rejects.toMatchObject({ code: 'ABORTED' })
  })
})

describe('progress', () => {
  const blob = { mediaType: 'x/y', digest: `sha256:${'a'.repeat(64)}` as const, size: 1000 }

  it('never goes backwards, whatever a blob reports, and ends with everything', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(1500)), (marks) => {
        const seen: CopyProgress[] = []
        let now = 0
        const progress = createProgress(
          [blob],
          () => (now += 10),
          (each) => seen.push(each),
        )
        for (const mark of marks) progress.reached(blob, mark)
        progress.finished(blob)
        for (const [index, { doneBytes, bytesPerSecond }] of seen.entries()) {
          expect(doneBytes).toBeGreaterThanOrEqual(seen[index - 1]?.doneBytes ?? 0)
          expect(bytesPerSecond).toBeGreaterThanOrEqual(0)
        }
        expect(seen.at(-1)).toMatchObject({ doneBytes: 1000, doneBlobs: 1, secondsLeft: 0 })
      }),
    )
  })

  it('tells the rate of the last seconds and the time left at it', () => {
    const seen: CopyProgress[] = []
    let now = 0
    const progress = createProgress(
      [blob],
      () => now,
      (each) => seen.push(each),
    )
    expect(seen.at(-1)).toMatchObject({ bytesPerSecond: 0, secondsLeft: undefined })
    for (const at of [1, 2, 3]) {
      now = at * 1000
      progress.reached(blob, at * 100)
    }
    expect(seen.at(-1)).toMatchObject({ bytesPerSecond: 100, secondsLeft: 7 })
    const meter = createRateMeter(0)
    for (let second = 1; second <= 20; second++) meter.add(second <= 10 ? 1000 : 10, second * 1000)
    expect(meter.rate()).toBeCloseTo(10)
  })
})
