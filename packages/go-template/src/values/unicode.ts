/** Go's `unicode` predicates and simple case mappings, over code points. */

const LETTER = /^\p{L}$/u
const DIGIT = /^\p{Nd}$/u
const NUMBER = /^\p{N}$/u
const PUNCTUATION = /^\p{P}$/u
const UPPER = /^\p{Lu}$/u
const LOWER = /^\p{Ll}$/u
const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S}]$/u
const SPACES = new Set([
  0x20, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000,
])

const character = (rune: number): string => String.fromCodePoint(rune)

export function isLetter(rune: number): boolean {
  if (rune < 0x80) return (rune >= 65 && rune <= 90) || (rune >= 97 && rune <= 122)
  return LETTER.test(character(rune))
}

export function isDigit(rune: number): boolean {
  if (rune < 0x80) return rune >= 48 && rune <= 57
  return DIGIT.test(character(rune))
}

export const isNumber = (rune: number): boolean => NUMBER.test(character(rune))
export const isPunctuation = (rune: number): boolean => PUNCTUATION.test(character(rune))
export const isUpper = (rune: number): boolean => UPPER.test(character(rune))
export const isLower = (rune: number): boolean => LOWER.test(character(rune))
export const isSpace = (rune: number): boolean => SPACES.has(rune) || (rune >= 0x2000 && rune <= 0x200a)

export function isPrintable(rune: number): boolean {
  if (rune < 0x80) return rune >= 0x20 && rune < 0x7f
  return PRINTABLE.test(character(rune))
}

/** One rune to one rune: where JavaScript's mapping makes several, Go's simple mapping keeps the rune. */
export function toUpper(rune: number): number {
  const mapped = character(rune).toUpperCase()
  const first = mapped.codePointAt(0) ?? rune
  return mapped.length === character(first).length ? first : rune
}

export function toLower(rune: number): number {
  return character(rune).toLowerCase().codePointAt(0) ?? rune
}
