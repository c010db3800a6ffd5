import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { describeShortage, laneOf, shortageOf, type Capacity, type Holder } from './capacity.ts'
import { JOB_KINDS } from './states.ts'

const GiB = 1_073_741_824
const capacity: Capacity = { slots: 4, interactiveSlots: 2, memoryBytes: 8 * GiB, cpus: 8 }

const anyHolder = fc.record({
  jobId: fc.uuid(),
  kind: fc.constantFrom(...JOB_KINDS),
  memoryBytes: fc.integer({ min: 1, max: 10 * GiB }),
  cpus: fc.double({ min: 0.1, max: 12, noNaN: true }),
})
const anyCapacity = fc.record({
  slots: fc.integer({ min: 1, max: 6 }),
  interactiveSlots: fc.nat(3),
  memoryBytes: fc.oneof(fc.constant(Infinity), fc.integer({ min: GiB, max: 16 * GiB })),
  cpus: fc.oneof(fc.constant(Infinity), fc.integer({ min: 1, max: 16 })),
})
const job = (jobId: string, changes: Partial<Holder> = {}): Holder => ({
  jobId,
  kind: 'deploy',
  memoryBytes: GiB,
  cpus: 1,
  ...changes,
})

describe('what a job waits for', () => {
  it('is nothing when its lane is empty, however large it is', () => {
    fc.assert(
      fc.property(anyCapacity, anyHolder, (of, wanted) => {
        expect(shortageOf(of, [], wanted)).toBeUndefined()
      }),
    )
  })

  it('is never held by a job of the other lane, where lanes have slots of their own', () => {
    fc.assert(
      fc.property(anyCapacity, fc.array(anyHolder), anyHolder, (of, holding, wanted) => {
        fc.pre(of.interactiveSlots > 0)
        const other = holding.filter(({ kind }) => laneOf(kind) !== laneOf(wanted.kind))
        expect(shortageOf(of, other, wanted)).toBeUndefined()
        for (const holder of shortageOf(of, holding, wanted)?.holders ?? []) {
          expect(laneOf(holder.kind)).toBe(laneOf(wanted.kind))
        }
      }),
    )
  })

  it('grows with what is held: whoever fits beside many fits beside fewer', () => {
    fc.assert(
      fc.property(anyCapacity, fc.array(anyHolder), anyHolder, (of, holding, wanted) => {
        fc.pre(shortageOf(of, holding, wanted) === undefined)
        expect(shortageOf(of, holding.slice(1), wanted)).toBeUndefined()
      }),
    )
  })

  it('keeps jobs that are let in one by one within the shares, but for one that is alone', () => {
    fc.assert(
      fc.property(anyCapacity, fc.array(anyHolder, { maxLength: 30 }), (of, wishes) => {
        const running: Holder[] = []
        for (const wish of wishes) if (!shortageOf(of, running, wish)) running.push(wish)
        expect(running.length).toBeLessThanOrEqual(of.slots + of.interactiveSlots)
        for (const lane of ['ordinary', 'interactive'] as const) {
          const here = running.filter(({ kind }) => of.interactiveSlots === 0 || laneOf(kind) === lane)
          const memory = here.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0)
          expect(here.length <= 1 || memory <= of.memoryBytes).toBe(true)
        }
      }),
    )
  })

  it('names the resource that is full, who has it, and how many come before', () => {
    const deploys = [job('job_1'), job('job_2'), job('job_3'), job('job_4')]
    const slots = shortageOf(capacity, deploys, job('job_5'))
    expect(describeShortage(slots!, 0)).toBe(
      'all 4 slots are taken, to deploy job_1, deploy job_2, deploy job_3 and 1 more',
    )
    expect(shortageOf(capacity, deploys, job('job_6', { kind: 'debug' }))).toBeUndefined()
    const large = [job('job_1', { memoryBytes: 5 * GiB })]
    expect(describeShortage(shortageOf(capacity, large, job('job_2', { memoryBytes: 3 * GiB }))!, 1)).toBe(
      'it needs 3 GiB of memory, and 5 GiB of 7 GiB are given out, to deploy job_1; 1 job waits before it',
    )
    const busy = [job('job_1', { cpus: 6.5 })]
    expect(describeShortage(shortageOf(capacity, busy, job('job_2'))!, 2)).toBe(
      'it needs 1 processors, and 6.5 of 7 are given out, to deploy job_1; 2 jobs wait before it',
    )
  })
})
