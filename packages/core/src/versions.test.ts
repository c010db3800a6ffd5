import { describe, expect, it } from 'vitest'
import { isVersion, newestFitting } from './versions.ts'

describe('a version', () => {
  it.each(['1.2.3', 'v1', '1.2', '1.2.3-rc.1+build'])('may be written as %s', (text) => {
    expect(isVersion(text)).toBe(true)
  })

  it.each(['', 'latest', '1.2.3.4', '1.2.x'])('is not %j', (text) => {
    expect(isVersion(text)).toBe(false)
  })
})

describe('the newest version', () => {
  const versions = ['1.2.0', 'v1.10.0', '2.0.0-rc.1', '1.9.0', 'latest']

  it.each([
    ['', 'v1.10.0'],
    ['~1.2', '1.2.0'],
    ['<1.10', '1.9.0'],
    ['>=2.0.0-0', '2.0.0-rc.1'],
    ['latest', 'latest'],
    ['^3', undefined],
    ['not a wish', undefined],
  ])('that fits %j is %s', (wanted, newest) => {
    expect(newestFitting(versions, wanted)).toBe(newest)
  })
})
