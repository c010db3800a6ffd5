import { describe, expect, it } from 'vitest'
import { refuseTakeOver, releaseOf } from './take-over.ts'

const NOW = Date.parse('2026-11-15T12:00:00.000Z')
const HOUR = 3_600_000
const at = (ms: number) => new Date(NOW + ms).toISOString()

/** What becomes of a token made to replace that agent, so long after its owner gave it up at that time. */
function after(ms: number, released: string): string | undefined {
  const { released_until = null } = releaseOf({ action: 'agent.released', at: released }, NOW)
  const inPlace = { id: 'agt_1', status: 'enrolled' as const, released_until }
  return refuseTakeOver(inPlace, { replaces: 'agt_1' }, NOW + ms)?.code
}

describe('an agent that its owner gave up', () => {
  it('may be replaced for a day from then on', () => {
    expect(after(23 * HOUR, at(0))).toBeUndefined()
    expect(after(24 * HOUR, at(0))).toBe('agent_in_place')
    expect(after(23 * HOUR, at(-2 * HOUR))).toBe('agent_in_place')
  })

  it('may be replaced for no longer when its clock is ahead', () => {
    expect(after(23 * HOUR, at(8760 * HOUR))).toBeUndefined()
    expect(after(24 * HOUR, at(8760 * HOUR))).toBe('agent_in_place')
  })

  it('is given up by no other event', () => {
    expect(releaseOf({ action: 'agent.paused', at: at(0) }, NOW)).toEqual({})
  })
})
