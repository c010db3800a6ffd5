import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalBytes, canonicalText, hasLoneSurrogate, isExactBase64, signingBytes } from './canonical.ts'

describe('canonical JSON', () => {
  it('is as the example of RFC 8785, section 3.2.2', () => {
    const text = String.raw`{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }`
    expect(canonicalText(JSON.parse(text))).toBe(
      String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
    )
  })

  it('sorts by UTF-16 code units as in section 3.2.3', () => {
    const value = {
      '\u20ac': 'Euro Sign',
      '\r': 'Carriage Return',
      '\ufb33': 'Hebrew Letter Dalet With Dagesh',
      '1': 'One',
      '\ud83d\ude00': 'Emoji: Grinning Face',
      '\u0080': 'Control',
      '\u00f6': 'Latin Small Letter O With Diaeresis',
    }
    expect(Object.values(JSON.parse(canonicalText(value)) as object)).toHaveLength(7)
    const order = [...canonicalText(value).matchAll(/:"([^"]+)"/g)].map((m) => m[1])
    expect(order).toEqual([
      'Carriage Return',
      'One',
      'Control',
      'Latin Small Letter O With Diaeresis',
      'Euro Sign',
      'Emoji: Grinning Face',
      'Hebrew Letter Dalet With Dagesh',
    ])
  })

  it('writes numbers as in appendix B', () => {
    const samples: [string, string][] = [
      ['0000000000000000', '0'],
      ['8000000000000000', '0'],
      ['0000000000000001', '5e-324'],
      ['8000000000000001', '-5e-324'],
      ['7fefffffffffffff', '1.7976931348623157e+308'],
      ['4340000000000000', '9007199254740992'],
      ['4430000000000000', '295147905179352830000'],
      ['44b52d02c7e14af5', '9.999999999999997e+22'],
      ['44b52d02c7e14af6', '1e+23'],
      ['444b1ae4d6e2ef4f', '999999999999999900000'],
      ['444b1ae4d6e2ef50', '1e+21'],
      ['3eb0c6f7a0b5ed8d', '0.000001'],
      ['41b3de4355555553', '333333333.3333332'],
      ['becbf647612f3696', '-0.0000033333333333333333'],
      ['43143ff3c1cb0959', '1424953923781206.2'],
    ]
    for (const [bits, text] of samples) {
      expect(canonicalText(Buffer.from(bits, 'hex').readDoubleBE())).toBe(text)
    }
  })

  it('refuses what is no JSON', () => {
    for (const value of [undefined, Number.NaN, Number.POSITIVE_INFINITY, '\ud800', 1n, () => 1]) {
      expect(() => canonicalText(value)).toThrow(/not allowed|BigInt|only JSON/)
    }
  })

  it('is one text for one value, whatever the order of its keys, and reads back as that value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'grapheme' }), (value) => {
        const text = canonicalText(value)
        expect(canonicalText(JSON.parse(text))).toBe(text)
        expect(canonicalText(reversed(value))).toBe(text)
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
        expect(new TextDecoder().decode(canonicalBytes(value))).toBe(text)
        expect(new TextDecoder().decode(signingBytes('agent-hello/2', value))).toBe(
          `tenon/agent-hello/2\n${text}`,
        )
      }),
    )
  })
})

describe('exact forms', () => {
  it('knows half a surrogate pair wherever it stands', () => {
    for (const text of ['', 'é', '😀', '\uFFFD']) expect(hasLoneSurrogate(text)).toBe(false)
    for (const text of ['\ud800', 'a\udc00b', '😀\ud83d', '\ude00\ud83d']) {
      expect(hasLoneSurrogate(text)).toBe(true)
    }
  })

  it('knows the one form that an encoder writes', () => {
    fc.assert(fc.property(fc.uint8Array(), (bytes) => isExactBase64(Buffer.from(bytes).toString('base64'))))
    for (const text of ['AB==', 'AA', 'AA=', 'AA ==', 'A-_=', '€']) expect(isExactBase64(text)).toBe(false)
  })
})

function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .map(([key, child]) => [key, reversed(child)])
      .toReversed(),
  )
}
