import { RUNE_ERROR, runeAt } from './bytes.ts'
import { isPrintable } from './unicode.ts'

const ESCAPES: Readonly<Record<number, string>> = {
  7: '\\a',
  8: '\\b',
  12: '\\f',
  10: '\\n',
  13: '\\r',
  9: '\\t',
  11: '\\v',
  92: '\\\\',
}

const hex = (value: number, length: number): string => value.toString(16).padStart(length, '0')

/** Go's `strconv.Quote`, of a byte string. */
export function quote(bytes: string, asciiOnly = false): string {
  return quoteWith(bytes, '"', asciiOnly)
}

/** Go's `strconv.QuoteRune`. */
export function quoteCharacter(bytes: string, asciiOnly = false): string {
  return quoteWith(bytes, "'", asciiOnly)
}

function quoteWith(bytes: string, mark: string, asciiOnly: boolean): string {
  let out = mark
  for (let at = 0; at < bytes.length;) {
    const { rune, width } = runeAt(bytes, at)
    const raw = bytes.slice(at, at + width)
    out +=
      width === 1 && rune === RUNE_ERROR
        ? `\\x${hex(raw.charCodeAt(0), 2)}`
        : escape(rune, raw, mark, asciiOnly)
    at += width
  }
  return out + mark
}

function escape(rune: number, raw: string, mark: string, asciiOnly: boolean): string {
  if (raw === mark) return `\\${mark}`
  const simple = ESCAPES[rune]
  if (simple) return simple
  if (isPrintable(rune) && (rune < 0x80 || !asciiOnly)) return raw
  if (rune < 0x20 || rune === 0x7f) return `\\x${hex(rune, 2)}`
  return rune < 0x10000 ? `\\u${hex(rune, 4)}` : `\\U${hex(rune, 8)}`
}

/** Whether a text can stand between backquotes as it is. */
export function canBackquote(bytes: string): boolean {
  for (let at = 0; at < bytes.length;) {
    const { rune, width } = runeAt(bytes, at)
    if (width === 1 && rune === RUNE_ERROR) return false
    if ((rune < 0x20 && rune !== 9) || rune === 0x60 || rune === 0x7f || rune === 0xfeff) return false
    at += width
  }
  return true
}
