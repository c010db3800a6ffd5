import type { Budget } from '../budget.ts'
import { runeAt } from '../values/bytes.ts'
import { compareValues, equalValues } from '../values/compare.ts'
import { CallError } from '../errors.ts'
import { sprint, sprintf, sprintln } from '../values/format.ts'
import { fn, type Functions, meteredVariadic, variadic } from './functions.ts'
import { isPrintable } from '../values/unicode.ts'
import { GoList, GoMap, Int, int, isTrue, typeName, type Value } from '../values/values.ts'

function length(value: Value): Value {
  if (value === undefined) throw new CallError('reflect: call of reflect.Value.Type on zero Value')
  if (value === null) throw new CallError('len of nil pointer')
  if (typeof value === 'string') return int(value.length)
  if (value instanceof GoList) return int(value.items.length)
  if (value instanceof GoMap) return int(value.size)
  throw new CallError(`len of type ${typeName(value)}`)
}

function index(item: Value, ...indexes: Value[]): Value {
  if (item === undefined || item === null) throw new CallError('index of untyped nil')
  return indexes.reduce(indexOne, item)
}

function indexOne(item: Value, at: Value): Value {
  if (item === undefined || item === null) throw new CallError('index of nil pointer')
  if (typeof item === 'string') return new Int(BigInt(item.charCodeAt(position(at, item.length))), 'uint8')
  if (item instanceof GoList) return item.items[position(at, item.items.length)]
  if (!(item instanceof GoMap)) throw new CallError(`can't index item of type ${typeName(item)}`)
  if (at === undefined || at === null) throw new CallError('value is nil; should be of type string')
  if (typeof at !== 'string') throw new CallError(`value has type ${typeName(at)}; should be string`)
  const value = item.get(at)
  if (value !== undefined) return value
  return item.elem === 'string' ? '' : null
}

function position(at: Value, size: number): number {
  if (at === undefined || at === null) throw new CallError('cannot index slice/array with nil')
  if (!(at instanceof Int)) throw new CallError(`cannot index slice/array with type ${typeName(at)}`)
  if (at.value === BigInt(size)) throw new CallError('reflect: slice index out of range')
  if (at.value < 0n || at.value > BigInt(size)) throw new CallError(`index out of range: ${at.value}`)
  return Number(at.value)
}

/** One text of many operands, as the escaping functions take them. */
function textOf(budget: Budget, args: Value[]): string {
  const [first] = args
  if (args.length === 1 && typeof first === 'string') return first
  return sprint(
    budget,
    args.map((arg) => (arg === undefined || arg === null ? '<no value>' : arg)),
  )
}

const HTML: Readonly<Record<string, string>> = {
  '"': '&#34;',
  "'": '&#39;',
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '\0': '\xef\xbf\xbd',
}

const JS: Readonly<Record<string, string>> = { '\\': '\\\\', "'": "\\'", '"': '\\"' }

const code = (rune: number): string => `\\u${rune.toString(16).toUpperCase().padStart(4, '0')}`

function escapeJs(text: string): string {
  let out = ''
  for (let at = 0; at < text.length;) {
    const { rune, width } = runeAt(text, at)
    const raw = text.slice(at, at + width)
    at += width
    if (rune >= 0x80) out += isPrintable(rune) ? raw : code(rune)
    else out += JS[raw] ?? (rune < 0x20 || '<>&='.includes(raw) ? code(rune) : raw)
  }
  return out
}

/** Go's `url.QueryEscape`. */
export function escapeQuery(text: string): string {
  return text.replace(/[^A-Za-z0-9\-_.~]/g, (byte) =>
    byte === ' ' ? '+' : `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  )
}

function equalsAny(budget: Budget, first: Value, ...others: Value[]): boolean {
  if (others.length === 0) throw new CallError('missing argument for comparison')
  return others.some((other) => equalValues(budget, first, other))
}

const lessOrEqual = (a: Value, b: Value): boolean => compareValues(a, b) <= 0
const less = (a: Value, b: Value): boolean => compareValues(a, b) < 0

/** The functions that `text/template` itself has. */
export const BUILTINS: Functions = {
  // The evaluator does these two itself: they short-circuit.
  and: variadic(['value'], 'value', (first) => first),
  or: variadic(['value'], 'value', (first) => first),
  not: fn(['value'], (value) => !isTrue(value)),
  len: fn(['value'], length),
  index: variadic(['value'], 'value', index),
  call: variadic(['value'], 'value', (value) => {
    if (value === undefined || value === null) throw new CallError('call of nil')
    throw new CallError(`non-function of type ${typeName(value)}`)
  }),
  print: meteredVariadic([], 'any', (budget, ...args) => sprint(budget, args)),
  println: meteredVariadic([], 'any', (budget, ...args) => sprintln(budget, args)),
  printf: meteredVariadic(['string'], 'any', (budget, format, ...args) => sprintf(budget, format, args)),
  html: meteredVariadic([], 'any', (budget, ...args) =>
    textOf(budget, args).replace(/["'&<>\0]/g, (mark) => HTML[mark] ?? mark),
  ),
  js: meteredVariadic([], 'any', (budget, ...args) => escapeJs(textOf(budget, args))),
  urlquery: meteredVariadic([], 'any', (budget, ...args) => escapeQuery(textOf(budget, args))),
  eq: meteredVariadic(['value'], 'value', equalsAny),
  ne: {
    ...fn(['value', 'value'], () => null),
    call: (budget, [a, b]) => !equalValues(budget, a, b),
  },
  lt: fn(['value', 'value'], less),
  le: fn(['value', 'value'], lessOrEqual),
  gt: fn(['value', 'value'], (a, b) => !lessOrEqual(a, b)),
  ge: fn(['value', 'value'], (a, b) => !less(a, b)),
}
