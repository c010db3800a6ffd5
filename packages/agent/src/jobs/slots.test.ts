import type { Holder, Shortage } from '@tenon/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Slots } from './slots.ts'

const job = (jobId: string, changes: Partial<Holder> = {}): Holder => ({
  jobId,
  kind: 'deploy',
  memoryBytes: 1,
  cpus: 1,
  ...changes,
})
const unbounded = { memoryBytes: Infinity, cpus: Infinity }

/** Which jobs are in, once everything that could happen has happened. */
function watched(slots: Slots) {
  const inside: string[] = []
  const told = new Map<string, { shortage: Shortage; ahead: number }>()
  const enter = (wanted: Holder, signal = new AbortController().signal, isFirst = false) =>
    slots
      .acquire(wanted, signal, (shortage, ahead) => told.set(wanted.jobId, { shortage, ahead }), isFirst)
      .then((isIn) => isIn && inside.push(wanted.jobId))
  return { inside, told, enter }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('slots', () => {
  it('let a debug job in at once, behind ten deploys that wait', async () => {
    const slots = new Slots({ slots: 1, interactiveSlots: 1, ...unbounded })
    const { inside, told, enter } = watched(slots)
    for (let index = 1; index <= 10; index++) void enter(job(`deploy-${index}`))
    void enter(job('debug', { kind: 'debug' }))
    await settled()
    expect(inside).toEqual(['deploy-1', 'debug'])
    expect(told.get('deploy-10')).toMatchObject({ ahead: 8, shortage: { resource: 'slots' } })
    slots.release('deploy-1')
    await settled()
    expect(inside.at(-1)).toBe('deploy-2')
    expect(told.get('deploy-3')).toMatchObject({ ahead: 0, shortage: { holders: [{ jobId: 'deploy-2' }] } })
  })

  it('let nobody pass a large job that waits, so that its turn comes', async () => {
    const slots = new Slots({ slots: 10, interactiveSlots: 0, memoryBytes: 4, cpus: Infinity })
    const { inside, enter } = watched(slots)
    for (const wanted of [job('a', { memoryBytes: 2 }), job('large', { memoryBytes: 4 }), job('small')]) {
      void enter(wanted)
    }
    await settled()
    expect(inside).toEqual(['a'])
    slots.release('a')
    await settled()
    expect(inside).toEqual(['a', 'large'])
    slots.release('large')
    await settled()
    expect(inside).toEqual(['a', 'large', 'small'])
  })

  it('go to jobs that were held before those that were assigned since, in the order of each', async () => {
    const slots = new Slots({ slots: 1, interactiveSlots: 0, ...unbounded })
    const { inside, told, enter } = watched(slots)
    const { signal } = new AbortController()
    for (const wanted of [job('runs'), job('assigned-1'), job('assigned-2')]) void enter(wanted)
    for (const wanted of [job('held-1'), job('held-2')]) void enter(wanted, signal, true)
    await settled()
    expect(told.get('assigned-1')).toMatchObject({ ahead: 2 })
    for (let ended = 0; ended < 5; ended++) {
      slots.release(inside[ended]!)
      await settled()
    }
    expect(inside).toEqual(['runs', 'held-1', 'held-2', 'assigned-1', 'assigned-2'])
  })

  it('give nothing to who gave up, and what that was in the way of goes on', async () => {
    const slots = new Slots({ slots: 3, interactiveSlots: 0, memoryBytes: 4, cpus: Infinity })
    const { inside, enter } = watched(slots)
    const gone = new AbortController()
    void enter(job('a', { memoryBytes: 2 }))
    void enter(job('large', { memoryBytes: 4 }), gone.signal)
    void enter(job('small'))
    gone.abort()
    await settled()
    expect(inside).toEqual(['a', 'small'])
    expect(await slots.acquire(job('late'), gone.signal, () => undefined)).toBe(false)
    expect(slots.used).toBe(2)
  })

  it('let everybody in at last, whatever comes and goes, and count to nothing in the end', async () => {
    const anyJob = fc.record({
      kind: fc.constantFrom('deploy' as const, 'debug' as const, 'sync' as const),
      memoryBytes: fc.integer({ min: 1, max: 12 }),
      cpus: fc.integer({ min: 1, max: 5 }),
    })
    const anyCapacity = fc.record({
      slots: fc.integer({ min: 1, max: 4 }),
      interactiveSlots: fc.nat(2),
      memoryBytes: fc.integer({ min: 1, max: 10 }),
      cpus: fc.integer({ min: 1, max: 6 }),
    })
    await fc.assert(
      fc.asyncProperty(anyCapacity, fc.array(anyJob, { maxLength: 15 }), async (capacity, wishes) => {
        const slots = new Slots(capacity)
        const { inside, enter } = watched(slots)
        for (const [index, wish] of wishes.entries()) void enter(job(String(index), wish))
        for (let ended = 0; ended < wishes.length; ended++) {
          await settled()
          expect(inside.length).toBeGreaterThan(ended)
          slots.release(inside[ended]!)
        }
        expect(slots.used).toBe(0)
      }),
      { numRuns: 50 },
    )
  })
})
