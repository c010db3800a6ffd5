/**
 * Go strings are bytes. Inside the interpreter a string is a "byte string": each character is one byte of its
 * UTF-8 form, so `len`, slicing and ordering are Go's, and a split character loses nothing.
 */

const NOT_ASCII = /[\u0080-\uffff]/

export const RUNE_ERROR = 0xfffd

export function isAscii(text: string): boolean {
  return !NOT_ASCII.test(text)
}

/** JavaScript text to a byte string. A lone surrogate becomes U+FFFD. */
export function encodeText(text: string): string {
  if (isAscii(text)) return text
  let out = ''
  for (const character of text) out += encodeRune(character.codePointAt(0) ?? RUNE_ERROR)
  return out
}

/** A byte string to JavaScript text. Bytes that are not UTF-8 become U+FFFD. */
export function decodeText(bytes: string): string {
  if (isAscii(bytes)) return bytes
  let out = ''
  for (const rune of runesOf(bytes)) out += String.fromCodePoint(rune)
  return out
}

export function encodeRune(rune: number): string {
  if (rune >= 0 && rune < 0x80) return String.fromCharCode(rune)
  if (rune < 0 || rune > 0x10ffff || (rune >= 0xd800 && rune < 0xe000)) return '\xef\xbf\xbd'
  if (rune < 0x800) return String.fromCharCode(0xc0 | (rune >> 6), 0x80 | (rune & 63))
  if (rune < 0x10000) {
    return String.fromCharCode(0xe0 | (rune >> 12), 0x80 | ((rune >> 6) & 63), 0x80 | (rune & 63))
  }
  return String.fromCharCode(
    0xf0 | (rune >> 18),
    0x80 | ((rune >> 12) & 63),
    0x80 | ((rune >> 6) & 63),
    0x80 | (rune & 63),
  )
}

export interface DecodedRune {
  rune: number
  width: number
}

/** The rune at a byte offset. A bad byte is U+FFFD of width 1; past the end the width is 0. */
export function runeAt(bytes: string, at: number): DecodedRune {
  const first = bytes.charCodeAt(at)
  if (first < 0x80) return { rune: first, width: 1 }
  if (Number.isNaN(first)) return { rune: RUNE_ERROR, width: 0 }
  const bad = { rune: RUNE_ERROR, width: 1 }
  const width = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2
  if (first < 0xc2 || first > 0xf4) return bad
  let rune = first & (0xff >> (width + 1))
  for (let i = 1; i < width; i++) {
    const next = bytes.charCodeAt(at + i)
    if (!(next >= 0x80 && next <= 0xbf)) return bad
    rune = (rune << 6) | (next & 63)
  }
  if (width === 3 && (rune < 0x800 || (rune >= 0xd800 && rune < 0xe000))) return bad
  if (width === 4 && (rune < 0x10000 || rune > 0x10ffff)) return bad
  return { rune, width }
}

export function runesOf(bytes: string): number[] {
  const runes: number[] = []
  for (let at = 0; at < bytes.length;) {
    const first = bytes.charCodeAt(at)
    const { rune, width } = first < 0x80 ? { rune: first, width: 1 } : runeAt(bytes, at)
    runes.push(rune)
    at += width
  }
  return runes
}

/** The characters of a byte string, each as the bytes it is made of. */
export function charactersOf(bytes: string): string[] {
  if (isAscii(bytes)) return bytes.split('')
  const parts: string[] = []
  for (let at = 0; at < bytes.length;) {
    const { width } = runeAt(bytes, at)
    parts.push(bytes.slice(at, at + width))
    at += width
  }
  return parts
}

export function runeCount(bytes: string): number {
  return isAscii(bytes) ? bytes.length : charactersOf(bytes).length
}

export function isValidUtf8(bytes: string): boolean {
  if (isAscii(bytes)) return true
  for (let at = 0; at < bytes.length;) {
    const { rune, width } = runeAt(bytes, at)
    if (rune === RUNE_ERROR && width === 1) return false
    at += width
  }
  return true
}

export function toUint8Array(bytes: string): Uint8Array {
  const out = new Uint8Array(bytes.length)
  for (let i = 0; i < bytes.length; i++) out[i] = bytes.charCodeAt(i)
  return out
}

/** Maps every rune of a byte string; bad bytes come out as U+FFFD, as Go's `strings.Map` does it. */
export function mapRunes(bytes: string, change: (rune: number) => number): string {
  let out = ''
  for (const rune of runesOf(bytes)) out += encodeRune(change(rune))
  return out
}
