import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formsOf, MAX_FORM_BYTES, MIN_SECRET_BYTES } from './forms.ts'
import { Mask, MASK_CONTEXT_BYTES, MaskStream } from './mask.ts'

const maskOf = (...values: string[]) => new Mask(values.flatMap(formsOf))

/** As a job's log passes: in chunks of these sizes, over and over. */
function inChunks(mask: Mask, bytes: Buffer, sizes: readonly number[]): Buffer {
  const stream = new MaskStream(() => mask)
  const parts: Buffer[] = []
  for (let at = 0, turn = 0; at < bytes.byteLength; turn++) {
    const size = sizes[turn % sizes.length] ?? 1
    parts.push(stream.write(bytes.subarray(at, at + size)))
    at += size
  }
  return Buffer.concat([...parts, stream.end()])
}

const whole = (mask: Mask, bytes: Buffer) => inChunks(mask, bytes, [Math.max(1, bytes.byteLength)])

const secret = fc
  .oneof(
    fc.string({ minLength: 4, maxLength: 40 }),
    fc.string({ minLength: 4, maxLength: 40, unit: 'binary' }),
    fc.string({ minLength: 300, maxLength: 700 }),
    fc.stringMatching(/^[ab]{4,12}$/),
  )
  .filter((text) => Buffer.byteLength(text) >= MIN_SECRET_BYTES && Buffer.from(text).toString() === text)

/** How tools print a value, each with something around it. */
const printed: ((value: string, around: string) => string)[] = [
  (value) => value,
  (value) => JSON.stringify(value),
  (value) => JSON.stringify({ message: JSON.stringify({ value }) }),
  (value) => encodeURIComponent(value),
  (value) => new URLSearchParams({ value }).toString(),
  (value, around) => Buffer.from(`${around}${value}${around}`).toString('base64'),
  (value, around) => Buffer.from(`${around}${value}`).toString('base64url'),
  (value) => Buffer.from(value).toString('base64'),
]
const noise = fc.oneof(fc.string({ maxLength: 30 }), fc.stringMatching(/^[ab]{0,20}$/), fc.constant('\n'))
const log = (value: string) =>
  fc
    .array(
      fc.oneof(
        noise,
        fc.tuple(fc.constantFrom(...printed), noise).map(([print, around]) => print(value, around)),
      ),
      { maxLength: 12 },
    )
    .map((parts) => Buffer.from(parts.join('')))
const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 })

describe('masking', () => {
  it('gives the same bytes however the log is cut into chunks', () => {
    const cases = secret.chain((value) => fc.tuple(fc.constant(value), log(value), sizes))
    fc.assert(
      fc.property(cases, ([value, bytes, chunks]) => {
        const mask = maskOf(value)
        expect(inChunks(mask, bytes, chunks).equals(whole(mask, bytes))).toBe(true)
      }),
    )
  })

  it('gives the same bytes from any place on, when it begins a little before that place', () => {
    const cases = secret.chain((value) => fc.tuple(fc.constant(value), log(value), fc.nat()))
    fc.assert(
      fc.property(cases, ([value, bytes, place]) => {
        const mask = maskOf(value)
        const offset = place % (bytes.byteLength + 1)
        const start = Math.max(0, offset - MASK_CONTEXT_BYTES)
        const resumed = whole(mask, bytes.subarray(start)).subarray(offset - start)
        expect(resumed.equals(whole(mask, bytes).subarray(offset))).toBe(true)
      }),
    )
  })

  it('leaves no form of a secret, changes no other byte and no length', () => {
    const cases = secret.chain((value) => fc.tuple(fc.constant(value), log(value), sizes))
    fc.assert(
      fc.property(cases, ([value, bytes, chunks]) => {
        const forms = formsOf(value)
        const masked = inChunks(maskOf(value), bytes, chunks)
        const covered = new Uint8Array(bytes.byteLength)
        for (const form of forms) {
          for (let at = bytes.indexOf(form); at >= 0; at = bytes.indexOf(form, at + 1)) {
            covered.fill(1, at, at + form.byteLength)
          }
        }
        const expected = Buffer.from(bytes.map((byte, at) => (covered[at] === 1 && byte !== 10 ? 42 : byte)))
        expect(masked.equals(expected)).toBe(true)
        const prints = [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value)]
        const visible = prints.filter((print) => !/^[*\n]*$/.test(print))
        expect(visible.filter((print) => masked.includes(print))).toEqual([])
      }),
    )
  })

  it('holds back no more than the longest form less one byte, and nothing that begins no secret', () => {
    const stream = new MaskStream(() => maskOf('a secret value'))
    expect(stream.write(Buffer.from('a line\n')).toString()).toBe('a line\n')
    expect(stream.write(Buffer.from('then: a secr')).toString()).toBe('then: ')
    expect(stream.write(Buffer.from('et value!')).toString()).toBe('**************!')
    fc.assert(
      fc.property(secret, sizes, (value, chunks) => {
        const mask = maskOf(value)
        const held = new MaskStream(() => mask)
        let [written, released] = [0, 0]
        for (const size of chunks) {
          const part = Buffer.from(value).subarray(0, size)
          written += part.byteLength
          released += held.write(part).byteLength
          expect(written - released).toBeLessThan(MAX_FORM_BYTES)
        }
      }),
    )
  })

  it('masks what was given while the log is read, from then on', () => {
    let mask = maskOf()
    const stream = new MaskStream(() => mask)
    expect(stream.write(Buffer.from('early-secret ')).toString()).toBe('early-secret ')
    mask = maskOf('early-secret')
    expect(stream.write(Buffer.from('early-sec')).toString()).toBe('')
    expect(stream.write(Buffer.from('ret end')).toString()).toBe('************ end')
  })
})

describe('a secret', () => {
  const value = 'p<ä"ss\\w & ö/+?='
  const stars = (text: string) => maskOf(value).text(text)

  it.each([
    ['plain', value],
    ['in JSON', JSON.stringify(value).slice(1, -1)],
    ['in JSON in JSON', JSON.stringify(JSON.stringify(value).slice(1, -1)).slice(1, -1)],
    ['as Go escapes it', JSON.stringify(value).slice(1, -1).replace('<', '\\u003c').replace('&', '\\u0026')],
    ['in a path', encodeURIComponent(value)],
    ['in a form', new URLSearchParams({ x: value }).toString().slice(2)],
    ['in lower case digits', encodeURIComponent(value).replaceAll(/%../g, (code) => code.toLowerCase())],
    ['in base64', Buffer.from(value).toString('base64')],
    ['in base64 without padding', Buffer.from(value).toString('base64').replaceAll('=', '')],
    ['in base64 for URLs', Buffer.from(value).toString('base64url')],
  ])('is masked %s', (_how, text) => {
    expect(stars(`>${text}<`)).toBe(`>${'*'.repeat(Buffer.byteLength(text))}<`)
  })

  it('is masked inside other base64, but for the characters that it shares with its neighbours', () => {
    for (const before of ['', 'a', 'ab']) {
      const encoded = Buffer.from(`${before}${value} and more`).toString('base64')
      const masked = stars(encoded)
      expect(masked.replaceAll('*', '').length).toBeLessThanOrEqual(
        Buffer.from(`${before} and more`).toString('base64').length + 2,
      )
      expect(masked).toMatch(/\*{20,}/)
    }
  })

  it('of several lines is masked line by line, and lines stay lines', () => {
    const key = '-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0B\n-----END KEY-----\n'
    const mask = maskOf(key)
    expect(mask.text('  MIIEvQIBADANBg\n  kqhkiG9w0B\n')).toBe('  **************\n  **********\n')
    expect(mask.text(key).split('\n')).toHaveLength(5)
    expect(mask.text(Buffer.from(key).toString('base64'))).toMatch(/^\*+$/)
  })

  it('that is long is masked in base64 with line breaks', () => {
    const long = 'x1y2'.repeat(60)
    const lines = Buffer.from(long)
      .toString('base64')
      .match(/.{1,76}/g)!
      .join('\n')
    expect(maskOf(long).text(lines)).toMatch(/^[*\n]+$/)
  })

  it('of fewer than four bytes is not masked', () => {
    expect(maskOf('abc').text('abcabc')).toBe('abcabc')
  })

  it('is masked in every text of a JSON value, and as a number', () => {
    const mask = maskOf('hunter22', '12345678')
    const value = { 'hunter22!': [{ a: 'is hunter22' }, 12345678, 1234, true, null] }
    expect(mask.json(value)).toEqual({ '********!': [{ a: 'is ********' }, '********', 1234, true, null] })
  })
})
