import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { advanceRun, retryDelay, type FailedAttempt, type StepState } from './advance.ts'
import { stepStates, type StepStatus } from './states.ts'

/** Steps that depend only on ones before them. */
const anySteps = fc.array(fc.array(fc.nat(7), { maxLength: 3 }), { minLength: 1, maxLength: 8 }).map((rows) =>
  rows.map((row, i): StepState => ({
    key: `s${i}`,
    dependsOn: row.filter((d) => d < i).map((d) => `s${d}`),
    status: 'pending',
  })),
)
const anyStatus = fc.constantFrom(...stepStates.states)
const isDone = (status: StepStatus | undefined) => status === 'succeeded' || status === 'skipped'

describe('advanceRun', () => {
  it('always comes to its right end, whatever the steps end with and in whatever order', () => {
    const outcome = fc.constantFrom<StepStatus>('succeeded', 'succeeded', 'failed', 'canceled')
    const script = fc.array(fc.record({ outcome, pick: fc.nat() }), { minLength: 8, maxLength: 8 })
    fc.assert(
      fc.property(anySteps, script, fc.option(fc.nat(8)), (initial, outcomes, cancelAfter) => {
        const steps = initial.map((s) => ({ ...s }))
        const byKey = new Map(steps.map((s) => [s.key, s]))
        let ended: string | undefined
        let moves = 0
        for (let turn = 0; ended === undefined; turn++) {
          const cancelRequested = cancelAfter !== null && moves >= cancelAfter
          const next = advanceRun(steps, cancelRequested)
          for (const key of next.start) {
            expect(byKey.get(key)!.dependsOn.every((d) => isDone(byKey.get(d)?.status))).toBe(true)
            byKey.get(key)!.status = 'active'
          }
          for (const key of next.cancel) byKey.get(key)!.status = 'canceled'
          ended = next.end
          const active = steps.filter((s) => s.status === 'active')
          expect(ended === undefined).toBe(active.length > 0)
          const { outcome: how, pick } = outcomes[moves++ % outcomes.length]!
          if (active.length > 0) active[pick % active.length]!.status = how
          expect(turn).toBeLessThanOrEqual(2 * steps.length)
        }
        expect(steps.every((s) => s.status !== 'pending' && s.status !== 'active')).toBe(true)
        const has = (status: StepStatus) => steps.some((s) => s.status === status)
        expect(ended).toBe(has('failed') ? 'failed' : has('canceled') ? 'canceled' : 'succeeded')
      }),
    )
  })

  it('starts a step exactly when it is pending and all it depends on is done', () => {
    fc.assert(
      fc.property(anySteps, fc.array(anyStatus, { minLength: 8, maxLength: 8 }), (initial, statuses) => {
        const steps = initial.map((s, i) => ({ ...s, status: statuses[i]! }))
        const status = new Map(steps.map((s) => [s.key, s.status]))
        const ready = steps.filter(
          (s) => s.status === 'pending' && s.dependsOn.every((d) => isDone(status.get(d))),
        )
        expect(advanceRun(steps, false).start).toEqual(ready.map((s) => s.key))
      }),
    )
  })

  it('never starts anything once it is canceled, and waits for what is active', () => {
    fc.assert(
      fc.property(anySteps, fc.array(anyStatus, { minLength: 8, maxLength: 8 }), (initial, statuses) => {
        const steps = initial.map((s, i) => ({ ...s, status: statuses[i]! }))
        const { start, end, cancel } = advanceRun(steps, true)
        expect(start).toEqual([])
        const active = steps.some((s) => s.status === 'active')
        expect(end === undefined).toBe(active)
        const pending = steps.filter((s) => s.status === 'pending').map((s) => s.key)
        expect(cancel).toEqual(active ? [] : pending)
      }),
    )
  })

  it('lets independent branches go on when one fails', () => {
    const steps: StepState[] = [
      { key: 'a', dependsOn: [], status: 'failed' },
      { key: 'after-a', dependsOn: ['a'], status: 'pending' },
      { key: 'b', dependsOn: [], status: 'succeeded' },
      { key: 'after-b', dependsOn: ['b'], status: 'pending' },
    ]
    expect(advanceRun(steps, false)).toEqual({ start: ['after-b'], cancel: [], end: undefined })
    steps[3] = { ...steps[3]!, status: 'succeeded' }
    expect(advanceRun(steps, false)).toEqual({ start: [], cancel: ['after-a'], end: 'failed' })
  })

  it('never waits for a dependency that does not exist', () => {
    const steps: StepState[] = [{ key: 'a', dependsOn: ['nowhere'], status: 'pending' }]
    expect(advanceRun(steps, false)).toEqual({ start: [], cancel: ['a'], end: 'failed' })
  })
})

describe('the pace of a run', () => {
  const steps = (...rows: Partial<StepState>[]): StepState[] =>
    rows.map((row, i) => ({ key: `s${i}`, dependsOn: [], status: 'pending', ...row }))

  it('starts as many steps as may be active at once', () => {
    const three = steps({ status: 'active' }, {}, {}, {})
    expect(advanceRun(three, false, { nowMs: 0, atOnce: 2 }).start).toEqual(['s1'])
    expect(advanceRun(three, false, { nowMs: 0, atOnce: 1 })).toEqual({
      start: [],
      cancel: [],
      end: undefined,
    })
  })

  it('lets what waits for a person take no place from what can work', () => {
    const some = steps({ isIdle: true }, {}, { isIdle: true }, {}, { status: 'active', isIdle: true })
    expect(advanceRun(some, false, { nowMs: 0, atOnce: 1 }).start).toEqual(['s0', 's1', 's2'])
    const full = steps({ status: 'active' }, {}, { isIdle: true })
    expect(advanceRun(full, false, { nowMs: 0, atOnce: 1 }).start).toEqual(['s2'])
  })

  it('waits for the time of a step that is tried again, and the run with it', () => {
    const waiting = steps({ notBeforeMs: 10 }, { dependsOn: ['s0'] })
    expect(advanceRun(waiting, false, { nowMs: 9, atOnce: 9 })).toEqual({
      start: [],
      cancel: [],
      end: undefined,
    })
    expect(advanceRun(waiting, false, { nowMs: 10, atOnce: 9 }).start).toEqual(['s0'])
    expect(advanceRun(waiting, true, { nowMs: 9, atOnce: 9 }).end).toBe('canceled')
  })
})

describe('retryDelay', () => {
  const failed: FailedAttempt = {
    kind: 'deploy',
    attempts: 1,
    maxAutoRetries: 3,
    reason: 'exit',
    isFinal: false,
  }

  it('backs off, up to a bound, as often as the component allows', () => {
    const delays = [1, 2, 3, 4].map((attempts) => retryDelay({ ...failed, attempts }))
    expect(delays).toEqual([5000, 10_000, 20_000, undefined])
    expect(retryDelay({ ...failed, attempts: 20, maxAutoRetries: 20 })).toBe(300_000)
  })

  it.each<[string, Partial<FailedAttempt>]>([
    ['somebody canceled it', { reason: 'canceled' }],
    ['the agent refused it', { reason: 'refused' }],
    ['nobody knows how it ended', { reason: 'gone' }],
    ['its plugin says so', { isFinal: true }],
    ['it is a sandbox', { kind: 'sandbox' }],
    ['the component allows none', { maxAutoRetries: 0 }],
  ])('leaves it to a person when %s', (_, facts) => {
    expect(retryDelay({ ...failed, ...facts })).toBeUndefined()
  })
})
