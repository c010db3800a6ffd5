import { describe, expect, it } from 'vitest'
import { MASKED, Masker } from './masking.ts'

describe('masking', () => {
  const masker = new Masker()
  masker.add({
    password: 'hunter2-long',
    pin: '123',
    list: ['line one is long\nline two is long', 987654321],
  })

  it('hides a secret inside text, as JSON writes it, in base64, and line by line', () => {
    expect(masker.text('pw=hunter2-long!')).toBe(`pw=${MASKED}!`)
    expect(masker.text(Buffer.from('hunter2-long').toString('base64'))).toBe(MASKED)
    expect(masker.text('x line two is long y')).toBe(`x ${MASKED} y`)
    expect(masker.text(JSON.stringify('line one is long\nline two is long'))).toBe(`"${MASKED}"`)
    expect(masker.text('n=987654321')).toBe(`n=${MASKED}`)
  })

  it('hides a short one only where it is the whole value', () => {
    expect(masker.text('1234')).toBe('1234')
    expect(masker.json({ a: '123', b: 123, c: 1234 })).toEqual({ a: MASKED, b: MASKED, c: 1234 })
  })

  it('goes through keys and values at any depth, and tells what holds a secret', () => {
    expect(masker.json({ 'hunter2-long': [{ x: 'a hunter2-long' }] })).toEqual({
      [MASKED]: [{ x: `a ${MASKED}` }],
    })
    expect(masker.holds({ a: ['hunter2-long'] })).toBe(true)
    expect(masker.holds({ a: [1, null, 'fine'] })).toBe(false)
  })
})
