import { nearest } from '@tenon/core'

export { nearest }

/** What was expected: the nearest of some names, else all of them. */
export function expectOneOf(given: string, known: readonly string[], none = 'none: there are none'): string {
  const near = nearest(given, known)
  if (near !== undefined) return near
  if (known.length === 0) return none
  const shown = known.slice(0, 30).join(', ')
  return `one of ${shown}${known.length > 30 ? ', …' : ''}`
}
