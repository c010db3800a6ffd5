import { describe, expect, it } from 'vitest'
import { agreeOnWire, areTogether, describeDisagreement, rangeOf, WIRE_VERSION } from './version.ts'

describe('versions', () => {
  it.each([
    ['0.7.0', '0.7.3', true],
    ['0.9.0', '0.5.1', true],
    ['0.5.1', '0.9.0', true],
    ['0.9.0', '0.4.0', false],
    ['0.2.0', '0.1.0', false],
    ['0.3.0', '0.2.0', true],
    ['0.3.0', '0.1.0', false],
    ['0.2.0', 'a test', false],
  ])('%s and %s work together: %s', (mine, theirs, expected) => {
    expect(areTogether(mine, theirs)).toBe(expected)
  })

  it('agree on the newest that both speak, or name the side that is too old', () => {
    expect(agreeOnWire(rangeOf(9), rangeOf(6))).toBe(6)
    expect(agreeOnWire(rangeOf(9), rangeOf(4))).toBeUndefined()
    const words = describeDisagreement(rangeOf(9), rangeOf(4), 'the server', 'the agent')
    expect(words).toMatch(/update the agent to 0\.5 or later/)
    expect(agreeOnWire(rangeOf(WIRE_VERSION), rangeOf(WIRE_VERSION))).toBe(WIRE_VERSION)
  })
})
