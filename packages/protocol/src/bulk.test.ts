import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BULK_LOG, decodeBulk, encodeBulk } from './bulk.ts'

describe('a bulk frame', () => {
  it('arrives as it was sent, also from the middle of a bigger buffer', () => {
    const frame = fc.record({
      kind: fc.constantFrom(BULK_LOG, 255),
      stream: fc.nat(0xffffffff),
      offset: fc.maxSafeNat(),
      payload: fc.uint8Array({ maxLength: 100 }),
    })
    fc.assert(
      fc.property(frame, fc.nat(20), (sent, shift) => {
        const bytes = encodeBulk(sent)
        expect(decodeBulk(bytes)).toEqual(sent)
        const bigger = new Uint8Array(bytes.length + shift + 5)
        bigger.set(bytes, shift)
        expect(decodeBulk(bigger.subarray(shift, shift + bytes.length))).toEqual(sent)
      }),
    )
  })

  it('is none when it is too short or its offset is no number of ours', () => {
    for (let length = 0; length < 13; length++) expect(decodeBulk(new Uint8Array(length))).toBeUndefined()
    expect(decodeBulk(new Uint8Array(13).fill(255))).toBeUndefined()
    fc.assert(fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => void decodeBulk(bytes)))
  })
})
