import { encodeRune, runeAt } from '../values/bytes.ts'
import type { NumberNode } from './nodes.ts'
import { Complex, int } from '../values/values.ts'

const MAX_INT = 2n ** 63n - 1n
const MIN_INT = -(2n ** 63n)
const MAX_UINT = 2n ** 64n - 1n

/** Go's `strconv.ParseInt(text, 0, 64)` without the range check. */
export function parseIntegerLiteral(text: string): bigint | undefined {
  const [, sign = '', rest = ''] = /^([+-]?)(.*)$/s.exec(text) ?? []
  if (!isIntegerSyntax(rest)) return undefined
  const digits = rest.replaceAll('_', '').toLowerCase()
  const octal = /^0[0-7]+$/.test(digits)
  const value = BigInt(octal ? `0o${digits.slice(1)}` : digits)
  return sign === '-' ? -value : value
}

/** Underscores stand between digits, or after the base. */
function isIntegerSyntax(text: string): boolean {
  return (
    /^(?:0|[1-9](?:_?[0-9])*)$/.test(text) ||
    /^0(?:_?[0-7])+$/.test(text) ||
    /^0[xX](?:_?[0-9a-fA-F])+$/.test(text) ||
    /^0[oO](?:_?[0-7])+$/.test(text) ||
    /^0[bB](?:_?[01])+$/.test(text)
  )
}

export function fitsInt64(value: bigint | undefined): value is bigint {
  return value !== undefined && value >= MIN_INT && value <= MAX_INT
}

/** Go's `strconv.ParseFloat(text, 64)`; undefined for bad syntax and for a value out of range. */
export function parseFloatLiteral(text: string): number | undefined {
  const named = /^([+-]?)(inf|infinity|nan)$/i.exec(text)
  if (named) {
    const value = /^n/i.test(named[2] ?? '') ? Number.NaN : Number.POSITIVE_INFINITY
    return named[1] === '-' ? -value : value
  }
  const hex = /^([+-]?)0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)[pP]([+-]?[0-9]+)$/.exec(text)
  let value: number
  if (hex) {
    const [, sign = '', whole = '', fraction = '', exponent = ''] = hex
    if (whole + fraction === '') return undefined
    const mantissa = Number(BigInt(`0x${whole}${fraction}`))
    value = mantissa * 2 ** (Number(exponent) - 4 * fraction.length) * (sign === '-' ? -1 : 1)
  } else {
    if (!/^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/.test(text)) return undefined
    value = Number(text)
  }
  return Number.isFinite(value) ? value : undefined
}

const floatWithUnderscores = (text: string): number | undefined =>
  /__|^_|_$|_\.|\._/.test(text) ? undefined : parseFloatLiteral(text.replaceAll('_', ''))

/** A number as a template writes it, or the message of what is wrong with it. */
export function parseNumber(text: string, position: number): NumberNode | string {
  const node = { kind: 'number', text, position } as const
  if (text.endsWith('i')) return parseComplex(text, position)
  const integer = parseIntegerLiteral(text)
  if (fitsInt64(integer)) return { ...node, ideal: int(integer), integer, float: Number(integer) }
  if (integer !== undefined && integer > 0n && integer <= MAX_UINT) {
    return { ...node, ideal: undefined, integer: undefined, float: Number(integer) }
  }
  const float = floatWithUnderscores(text)
  if (float === undefined) return `illegal number syntax: "${text}"`
  if (!/[.eEpP]/.test(text)) return `integer overflow: "${text}"`
  const asInt = Number.isInteger(float) ? BigInt(float) : undefined
  return { ...node, ideal: float, integer: fitsInt64(asInt) ? asInt : undefined, float }
}

function parseComplex(text: string, position: number): NumberNode | string {
  const [, first = '', second] = /^([+-]?[^+-]*(?:[eEpP][+-][^+-]*)?)([+-].*)?i$/.exec(text) ?? []
  const real = second === undefined ? 0 : floatWithUnderscores(first)
  const imaginary = floatWithUnderscores(second ?? first)
  if (real === undefined || imaginary === undefined) return `illegal number syntax: "${text}"`
  const float = imaginary === 0 ? real : undefined
  const integer = float !== undefined && Number.isInteger(float) ? BigInt(float) : undefined
  return { kind: 'number', text, position, ideal: new Complex(real, imaginary), integer, float }
}

/** A character constant, or the message of what is wrong with it. */
export function parseCharacter(text: string, position: number): NumberNode | string {
  const read = unquoteCharacter(text, 1, "'")
  if (!read) return 'invalid syntax'
  if (text.slice(read.end) !== "'") return `malformed character constant: ${text}`
  const rune = read.rune ?? read.bytes.charCodeAt(0)
  return { kind: 'number', text, position, ideal: int(rune), integer: BigInt(rune), float: rune }
}

/** Go's `strconv.Unquote`; undefined when the syntax is bad. */
export function unquote(text: string): string | undefined {
  if (text.startsWith('`')) return text.slice(1, -1).replaceAll('\r', '')
  const end = text.length - 1
  let out = ''
  for (let at = 1; at < end;) {
    const read = unquoteCharacter(text, at, '"')
    if (!read || read.end > end) return undefined
    out += read.bytes
    at = read.end
  }
  return out
}

const ESCAPES: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  '\\': '\\',
}
const HEX_LENGTHS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 }

interface Unquoted {
  bytes: string
  rune?: number
  end: number
}

function unquoteCharacter(text: string, at: number, quote: string): Unquoted | undefined {
  const first = text[at]
  if (first === undefined || first === quote || first === '\n') return undefined
  if (first !== '\\') {
    const { rune, width } = runeAt(text, at)
    return { bytes: text.slice(at, at + width), rune, end: at + width }
  }
  const letter = text[at + 1] ?? ''
  if (letter === quote) return { bytes: quote, end: at + 2 }
  const simple = ESCAPES[letter]
  if (simple !== undefined) return { bytes: simple, end: at + 2 }
  const length = HEX_LENGTHS[letter]
  if (length !== undefined) return unquoteHex(text, at + 2, letter, length)
  const octal = /^[0-7]{3}$/.test(text.slice(at + 1, at + 4))
    ? Number.parseInt(text.slice(at + 1, at + 4), 8)
    : 256
  return octal > 255 ? undefined : { bytes: String.fromCharCode(octal), end: at + 4 }
}

function unquoteHex(text: string, at: number, letter: string, length: number): Unquoted | undefined {
  const digits = text.slice(at, at + length)
  if (digits.length < length || !/^[0-9a-fA-F]+$/.test(digits)) return undefined
  const code = Number.parseInt(digits, 16)
  if (letter === 'x') return { bytes: String.fromCharCode(code), end: at + length }
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return undefined
  return { bytes: encodeRune(code), rune: code, end: at + length }
}
