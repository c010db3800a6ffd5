import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fullJitter } from './backoff.ts'
import { ID_PATTERN, ID_PREFIXES, makeId, type IdKind } from './ids.ts'

const anyTime = fc.integer({ min: 0, max: 2 ** 48 })
const anyRandom = fc.uint8Array({ minLength: 10, maxLength: 10 })

describe('ids', () => {
  it('have the form of an id and the prefix of their kind', () => {
    const kind = fc.constantFrom(...(Object.keys(ID_PREFIXES) as IdKind[]))
    fc.assert(
      fc.property(kind, anyTime, anyRandom, (k, time, random) => {
        const id = makeId(k, time, random)
        expect(id).toMatch(ID_PATTERN)
        expect(id.slice(0, 4)).toBe(`${ID_PREFIXES[k]}_`)
      }),
    )
    expect(new Set(Object.values(ID_PREFIXES)).size).toBe(Object.keys(ID_PREFIXES).length)
  })

  it('sort by time, then by what is random; different ones differ', () => {
    fc.assert(
      fc.property(anyTime, anyTime, anyRandom, anyRandom, (t1, t2, r1, r2) => {
        const [a, b] = [makeId('job', t1, r1), makeId('job', t2, r2)]
        const order = Math.sign(t1 - t2) || Math.sign(Buffer.compare(r1, r2))
        expect(a < b ? -1 : a > b ? 1 : 0).toBe(order)
      }),
    )
  })
})

describe('full jitter', () => {
  it('stays between nothing and the cap, for any number of attempts', () => {
    const random = fc.double({ min: 0, max: 0.999_999, noNaN: true })
    fc.assert(
      fc.property(fc.nat(10_000), random, (attempt, r) => {
        const delay = fullJitter(attempt, r, 500, 30_000)
        expect(delay).toBeGreaterThanOrEqual(0)
        expect(delay).toBeLessThan(Math.min(30_000, 500 * 2 ** attempt))
        expect(Number.isInteger(delay)).toBe(true)
      }),
    )
  })
})
