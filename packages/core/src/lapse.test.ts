import { expect, it } from 'vitest'
import { isReplaceable, type LapsedJob } from './lapse.ts'
import { jobStates, stepStates } from './states.ts'

const run = { status: 'active' as const, isCanceling: false }
const lapsed: LapsedJob = { run, steps: ['active', 'pending'], jobs: ['queued'] }

it('a job that lapsed gives way to nobody while what asks anew for it is still queued', () => {
  expect(isReplaceable(lapsed)).toBe(true)
  expect(isReplaceable({ ...lapsed, run: null })).toBe(true)
  expect(isReplaceable({ ...lapsed, jobs: [] })).toBe(true)
  const isReplaceableWith = jobStates.states.filter((status) =>
    isReplaceable({ ...lapsed, jobs: ['queued', status] }),
  )
  expect(isReplaceableWith).toEqual(['queued'])
})

it('a job that lapsed does not go on against a word that somebody gave meanwhile', () => {
  expect(isReplaceable({ ...lapsed, run: { ...run, isCanceling: true } })).toBe(false)
  expect(isReplaceable({ ...lapsed, run: { ...run, status: 'canceled' } })).toBe(false)
  const left = stepStates.states.filter((status) => isReplaceable({ ...lapsed, steps: [status] }))
  expect(left).toEqual(['pending', 'active', 'succeeded'])
})
