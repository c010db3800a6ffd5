import type { Budget } from '../budget.ts'
import { charactersOf, encodeRune, RUNE_ERROR, runeCount } from './bytes.ts'
import { type FloatFormat, formatFloat } from './float-format.ts'
import { canBackquote, quote, quoteCharacter } from './quote.ts'
import { isPrintable } from './unicode.ts'
import { Complex, GoList, GoMap, Int, typeName, type Value } from './values.ts'

/** What a verb of a format carries: `%-08.3f` and the like. */
export interface Flags {
  width: number | undefined
  precision: number | undefined
  minus: boolean
  plus: boolean
  sharp: boolean
  space: boolean
  zero: boolean
  /** `%#v`: Go syntax. */
  syntax: boolean
}

export const NO_FLAGS: Readonly<Flags> = {
  width: undefined,
  precision: undefined,
  minus: false,
  plus: false,
  sharp: false,
  space: false,
  zero: false,
  syntax: false,
}

/** One operand, by one verb: Go's `printArg`. The result is a byte string. */
export function printValue(budget: Budget, value: Value, verb: string, flags: Flags = NO_FLAGS): string {
  const text = printAt({ budget, verb, flags }, value, 0)
  budget.text(text.length)
  return text
}

interface Verb {
  budget: Budget
  verb: string
  flags: Flags
}

function printAt(how: Verb, value: Value, depth: number): string {
  const { budget, verb, flags } = how
  budget.spend(1)
  budget.depth(depth)
  if (value === undefined || value === null) return printNil(how, depth)
  if (depth === 0 && verb === 'T') return pad(typeName(value), flags)
  if (typeof value === 'string') return printString(how, value)
  if (typeof value === 'boolean') return 'tv'.includes(verb) ? pad(String(value), flags) : badVerb(how, value)
  if (typeof value === 'number') return printFloat(how, value)
  if (value instanceof Int) return printInteger(how, value)
  if (value instanceof Complex) return printComplex(how, value)
  if (value instanceof GoList) return printList(how, value, depth)
  if (value instanceof GoMap) return printMap(how, value, depth)
  return printString(how, value.text())
}

function printNil({ verb, flags }: Verb, depth: number): string {
  if (depth > 0) return flags.syntax ? 'interface {}(nil)' : '<nil>'
  return verb === 'v' || verb === 'T' ? pad('<nil>', flags) : `%!${verb}(<nil>)`
}

function badVerb(how: Verb, value: Value): string {
  const printed = printAt({ ...how, verb: 'v' }, value, 0)
  return `%!${how.verb}(${typeName(value)}=${printed})`
}

function printList(how: Verb, value: GoList, depth: number): string {
  const { syntax } = how.flags
  if (syntax && value.isNil) return `${typeName(value)}(nil)`
  const pieces = new Pieces(how.budget)
  for (const item of value.items) pieces.add(printAt(how, item, depth + 1))
  return syntax ? `${typeName(value)}{${pieces.join(', ')}}` : `[${pieces.join(' ')}]`
}

function printMap(how: Verb, value: GoMap, depth: number): string {
  const { syntax } = how.flags
  if (syntax && value.isNil) return `${typeName(value)}(nil)`
  const pieces = new Pieces(how.budget)
  for (const [key, item] of value.entries(how.budget)) {
    pieces.add(`${printAt(how, key, depth + 1)}:${printAt(how, item, depth + 1)}`)
  }
  return syntax ? `${typeName(value)}{${pieces.join(', ')}}` : `map[${pieces.join(' ')}]`
}

/** Pieces of one text, held to the size that a text may have. */
class Pieces {
  readonly #budget: Budget
  readonly #pieces: string[] = []
  #bytes = 0

  constructor(budget: Budget) {
    this.#budget = budget
  }

  add(piece: string): void {
    this.#bytes += piece.length + 1
    if (this.#bytes > this.#budget.limits.outputBytes) this.#budget.text(this.#bytes)
    this.#pieces.push(piece)
  }

  join(separator: string): string {
    return this.#pieces.join(separator)
  }
}

/** Widths count characters. */
export function pad(text: string, { width, minus, zero }: Flags): string {
  const missing = (width ?? 0) - runeCount(text)
  if (missing <= 0) return text
  return minus ? text + ' '.repeat(missing) : (zero ? '0' : ' ').repeat(missing) + text
}

function cut(text: string, precision: number | undefined): string {
  return precision === undefined ? text : charactersOf(text).slice(0, precision).join('')
}

function printString(how: Verb, text: string): string {
  const { verb, flags } = how
  how.budget.text(text.length)
  switch (verb) {
    case 'v':
      return flags.syntax
        ? pad(quoteText(cut(text, flags.precision), flags), flags)
        : pad(cut(text, flags.precision), flags)
    case 's':
      return pad(cut(text, flags.precision), flags)
    case 'q':
      return pad(quoteText(cut(text, flags.precision), flags), flags)
    case 'x':
      return pad(hexOf(text, flags), flags)
    case 'X':
      return pad(hexOf(text, flags).toUpperCase(), flags)
    default:
      return badVerb(how, text)
  }
}

function quoteText(text: string, flags: Flags): string {
  return flags.sharp && canBackquote(text) ? `\`${text}\`` : quote(text, flags.plus)
}

function hexOf(text: string, { sharp, space, precision }: Flags): string {
  const bytes = (precision === undefined ? text : text.slice(0, precision))
    .split('')
    .map((byte) => byte.charCodeAt(0).toString(16).padStart(2, '0'))
  if (bytes.length === 0) return ''
  if (space) return bytes.map((byte) => (sharp ? `0x${byte}` : byte)).join(' ')
  return (sharp ? '0x' : '') + bytes.join('')
}

const BASES: Readonly<Record<string, number>> = { v: 10, d: 10, b: 2, o: 8, O: 8, x: 16, X: 16 }

function printInteger(how: Verb, integer: Int): string {
  const { verb, flags } = how
  const { value } = integer
  const base = BASES[verb]
  if (base !== undefined) return printDigits(value, base, verb, flags)
  const rune = value >= 0n && value <= 0x10ffffn ? Number(value) : RUNE_ERROR
  if (verb === 'c') return pad(encodeRune(rune), flags)
  if (verb === 'q') return pad(quoteCharacter(encodeRune(rune), flags.plus), flags)
  if (verb !== 'U') return badVerb(how, integer)
  const digits = value
    .toString(16)
    .toUpperCase()
    .padStart(Math.max(flags.precision ?? 4, 4), '0')
  const shown = flags.sharp && isPrintable(rune) ? ` '${encodeRune(rune)}'` : ''
  return pad(`U+${digits}${shown}`, { ...flags, zero: false })
}

const PREFIXES: Readonly<Record<number, string>> = { 2: '0b', 8: '0', 16: '0x' }

function printDigits(value: bigint, base: number, verb: string, flags: Flags): string {
  const spaced = { ...flags, zero: false }
  const negative = value < 0n
  if (flags.precision === 0 && value === 0n) return pad('', spaced)
  const sign = negative ? '-' : flags.plus ? '+' : flags.space ? ' ' : ''
  const zeros = flags.precision ?? (flags.zero ? (flags.width ?? 0) - sign.length : 0)
  let digits = (negative ? -value : value).toString(base).padStart(zeros, '0')
  if (flags.sharp && !(base === 8 && digits.startsWith('0'))) digits = (PREFIXES[base] ?? '') + digits
  if (verb === 'O') digits = `0o${digits}`
  if (verb === 'X') digits = digits.toUpperCase()
  return pad(sign + digits, spaced)
}

const FLOAT_VERBS: Readonly<Record<string, [format: FloatFormat, precision: number]>> = {
  v: ['g', -1],
  g: ['g', -1],
  G: ['G', -1],
  x: ['x', -1],
  X: ['X', -1],
  b: ['b', -1],
  e: ['e', 6],
  E: ['E', 6],
  f: ['f', 6],
  F: ['f', 6],
}

function printFloat(how: Verb, value: number): string {
  const { verb, flags } = how
  const format = FLOAT_VERBS[verb]
  if (!format) return badVerb(how, value)
  const precision = flags.precision ?? format[1]
  let text = formatFloat(value, format[0], precision)
  if (!/^[+-]/.test(text)) text = `${flags.space && !flags.plus ? ' ' : '+'}${text}`
  if (!Number.isFinite(value)) {
    const shown = Number.isNaN(value) && !flags.plus && !flags.space ? text.slice(1) : text
    return pad(shown, { ...flags, zero: false })
  }
  if (flags.sharp && verb !== 'b') text = withPoint(text, verb, precision)
  if (!flags.plus && text.startsWith('+')) return pad(text.slice(1), flags)
  const missing = (flags.width ?? 0) - text.length
  if (flags.zero && missing > 0) return text.slice(0, 1) + '0'.repeat(missing) + text.slice(1)
  return pad(text, flags)
}

/** The `#` flag: a decimal point always, and for `%g` the trailing zeros too. */
function withPoint(text: string, verb: string, precision: number): string {
  const isHex = verb === 'x' || verb === 'X'
  const cutAt = text.search(isHex ? /[pP]/ : /[eE]/)
  const number = cutAt < 0 ? text : text.slice(0, cutAt)
  const tail = cutAt < 0 ? '' : text.slice(cutAt)
  let missing = 'vgGx'.includes(verb) ? (precision < 0 ? 6 : precision) : 0
  missing -= number.slice(1).replaceAll('.', '').replace(/^0+/, '').length
  const point = number.includes('.') ? '' : '.'
  if (point && number.slice(1) === '0') missing--
  return `${number}${point}${'0'.repeat(Math.max(missing, 0))}${tail}`
}

function printComplex(how: Verb, value: Complex): string {
  if (!FLOAT_VERBS[how.verb]) return badVerb(how, value)
  const imaginary = { ...how, flags: { ...how.flags, plus: true } }
  return `(${printFloat(how, value.real)}${printFloat(imaginary, value.imaginary)}i)`
}
