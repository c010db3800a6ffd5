import { CallError } from '../errors.ts'

/** Base64 and base32 of byte strings, with Go's strictness and Go's messages. */
interface Encoding {
  name: string
  alphabet: string
  /** Bits in a digit, digits in a group. */
  bits: number
  group: number
  notIn: RegExp
}

export const BASE64: Encoding = {
  name: 'base64',
  alphabet: 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/',
  bits: 6,
  group: 4,
  notIn: /[^A-Za-z0-9+/]/,
}

export const BASE32: Encoding = {
  name: 'base32',
  alphabet: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567',
  bits: 5,
  group: 8,
  notIn: /[^A-Z2-7]/,
}

export function encodeBase({ alphabet, bits, group }: Encoding, bytes: string): string {
  let [out, pending, held] = ['', 0, 0]
  for (let i = 0; i < bytes.length; i++) {
    pending = ((pending << 8) | bytes.charCodeAt(i)) & 0xfff
    held += 8
    for (; held >= bits; held -= bits) out += alphabet[(pending >> (held - bits)) & ((1 << bits) - 1)]
  }
  if (held > 0) out += alphabet[(pending << (bits - held)) & ((1 << bits) - 1)]
  return out.padEnd(Math.ceil(out.length / group) * group, '=')
}

/** Throws a CallError that names the byte where the input goes wrong. */
export function decodeBase(encoding: Encoding, text: string): string {
  const { alphabet, bits, group, notIn } = encoding
  const bad = (at: number): never => {
    throw new CallError(`illegal ${encoding.name} data at input byte ${at}`)
  }
  const data = text.replace(/[\r\n]/g, '')
  // Messages count the line breaks that are left out of the data.
  const positionOf = (index: number): number => {
    let [at, left] = [0, index]
    for (; at < text.length && (left > 0 || /[\r\n]/.test(text[at] ?? '')); at++) {
      if (!/[\r\n]/.test(text[at] ?? '')) left--
    }
    return at
  }
  let padding = 0
  while (data.at(-1 - padding) === '=') padding++
  const digits = data.slice(0, data.length - padding)
  const firstBad = digits.search(notIn)
  const tail = digits.length % group
  if (firstBad >= 0) bad(positionOf(firstBad))
  const allowed = group === 4 ? [0, 2, 3] : [0, 2, 4, 5, 7]
  if (!allowed.includes(tail) || padding !== (group - tail) % group) {
    bad(positionOf(digits.length - tail))
  }
  let [out, pending, held] = ['', 0, 0]
  for (const digit of digits) {
    pending = ((pending << bits) | alphabet.indexOf(digit)) & 0xfff
    held += bits
    if (held >= 8) {
      held -= 8
      out += String.fromCharCode((pending >> held) & 0xff)
    }
  }
  return out
}
