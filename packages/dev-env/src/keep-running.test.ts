import { expect, it } from 'vitest'
import { mayStartAgain } from './keep-running.ts'

it('a program that died is started again, unless it died three times within a minute', () => {
  expect(mayStartAgain([], 0)).toBe(true)
  expect(mayStartAgain([0, 1_000], 2_000)).toBe(true)
  expect(mayStartAgain([0, 1_000, 2_000], 3_000)).toBe(false)
  expect(mayStartAgain([0, 1_000, 2_000], 61_500)).toBe(true)
})
