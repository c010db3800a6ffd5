import type { Budget } from '../budget.ts'
import { charactersOf, encodeRune, isAscii, mapRunes, runesOf } from '../values/bytes.ts'
import { CallError } from '../errors.ts'
import { fn, type Functions, metered, meteredVariadic } from '../functions/functions.ts'
import { quote } from '../values/quote.ts'
import { camelCase, kebabCase, snakeCase, swapCase, titleCase, untitleCase } from './case.ts'
import { abbreviate, wrap } from './wrap.ts'
import { spaced, textOf, textsOf } from './text.ts'
import { isSpace, toLower, toUpper } from '../values/unicode.ts'
import { GoMap, strings, type Value } from '../values/values.ts'

const lower = (text: string): string => (isAscii(text) ? text.toLowerCase() : mapRunes(text, toLower))
const upper = (text: string): string => (isAscii(text) ? text.toUpperCase() : mapRunes(text, toUpper))

/** Go's `strings.Trim` of the characters that a predicate names. */
function trimWhile(text: string, drop: (character: string) => boolean): string {
  const characters = charactersOf(text)
  let [start, end] = [0, characters.length]
  while (start < end && drop(characters[start] as string)) start++
  while (end > start && drop(characters[end - 1] as string)) end--
  return characters.slice(start, end).join('')
}

const isBlank = (character: string): boolean => isSpace(runesOf(character)[0] ?? 0)
// JavaScript's blanks are Go's, but for the byte order mark, which is not ASCII.
const trim = (text: string): string => (isAscii(text) ? text.trim() : trimWhile(text, isBlank))

function trimAll(cutset: string, text: string): string {
  const cut = new Set(charactersOf(cutset))
  return trimWhile(text, (character) => cut.has(character))
}

function repeat(budget: Budget, count: number, text: string): string {
  if (count < 0) throw new CallError('strings: negative Repeat count')
  budget.text(count * text.length)
  return text.repeat(count)
}

/** Between an empty separator Go splits into characters. */
export function split(separator: string, text: string): string[] {
  return separator === '' ? charactersOf(text) : text.split(separator)
}

function splitAtMost(separator: string, count: number, text: string): string[] {
  if (count === 0) return []
  const parts = split(separator, text)
  if (count < 0 || parts.length <= count) return parts
  return [...parts.slice(0, count - 1), parts.slice(count - 1).join(separator)]
}

function numbered(parts: string[]): GoMap {
  return GoMap.of(
    parts.map((part, i) => [`_${i}`, part]),
    'string',
  )
}

function replace(budget: Budget, old: string, replacement: string, text: string): string {
  const parts = split(old, text)
  budget.text(text.length + (parts.length + 1) * replacement.length)
  const joined = parts.join(replacement)
  return old === '' ? replacement + joined + (text === '' ? '' : replacement) : joined
}

function join(budget: Budget, separator: string, value: Value): string {
  const parts = textsOf(budget, value)
  budget.text(parts.reduce((size, part) => size + part.length + separator.length, 0))
  return parts.join(separator)
}

function indent(budget: Budget, spaces: number, text: string): string {
  const padding = repeat(budget, spaces, ' ')
  return padding + replace(budget, '\n', `\n${padding}`, text)
}

function outOfRange(from: number, to: number): never {
  throw new CallError(`runtime error: slice bounds out of range [${from}:${to}]`)
}

function substring(start: number, end: number, text: string): string {
  if (start < 0) return end < 0 || end > text.length ? outOfRange(0, end) : text.slice(0, end)
  const to = end < 0 || end > text.length ? text.length : end
  return start > to ? outOfRange(start, to) : text.slice(start, to)
}

function truncate(count: number, text: string): string {
  if (count < 0) return text.length + count > 0 ? text.slice(count) : text
  return text.slice(0, count)
}

/** Reads bytes as characters, as the library under Sprig does. */
function bytesAsRunes(text: string, keep: (rune: number) => boolean): string {
  return text
    .split('')
    .map((byte) => byte.charCodeAt(0))
    .filter(keep)
    .map(encodeRune)
    .join('')
}

function initials(text: string): string {
  let afterGap = true
  return bytesAsRunes(text, (rune) => {
    const isFirst = afterGap && !isSpace(rune)
    afterGap = isSpace(rune)
    return isFirst
  })
}

export const STRING_FUNCTIONS: Functions = {
  hello: fn([], () => 'Hello!'),
  lower: fn(['string'], lower),
  upper: fn(['string'], upper),
  title: fn(['string'], titleCase),
  untitle: fn(['string'], untitleCase),
  swapcase: fn(['string'], swapCase),
  snakecase: fn(['string'], snakeCase),
  camelcase: fn(['string'], camelCase),
  kebabcase: fn(['string'], kebabCase),
  initials: fn(['string'], initials),
  nospace: fn(['string'], (text) => bytesAsRunes(text, (rune) => !isSpace(rune))),
  trim: fn(['string'], trim),
  trimAll: fn(['string', 'string'], trimAll),
  trimall: fn(['string', 'string'], trimAll),
  trimSuffix: fn(['string', 'string'], (suffix, text) =>
    suffix !== '' && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text,
  ),
  trimPrefix: fn(['string', 'string'], (prefix, text) =>
    text.startsWith(prefix) ? text.slice(prefix.length) : text,
  ),
  contains: fn(['string', 'string'], (part, text) => text.includes(part)),
  hasPrefix: fn(['string', 'string'], (prefix, text) => text.startsWith(prefix)),
  hasSuffix: fn(['string', 'string'], (suffix, text) => text.endsWith(suffix)),
  repeat: metered(['int', 'string'], repeat),
  replace: metered(['string', 'string', 'string'], replace),
  join: metered(['string', 'any'], join),
  split: fn(['string', 'string'], (separator, text) => numbered(split(separator, text))),
  splitn: fn(['string', 'int', 'string'], (separator, count, text) =>
    numbered(splitAtMost(separator, count, text)),
  ),
  splitList: fn(['string', 'string'], (separator, text) => strings(split(separator, text))),
  substr: fn(['int', 'int', 'string'], substring),
  trunc: fn(['int', 'string'], truncate),
  abbrev: fn(['int', 'string'], (width, text) => (width < 4 ? text : abbreviate(text, 0, width))),
  abbrevboth: fn(['int', 'int', 'string'], (left, right, text) =>
    right < 4 || (left > 0 && right < 7) ? text : abbreviate(text, left, right),
  ),
  wrap: metered(['int', 'string'], (budget, width, text) => wrap(budget, text, width, '\n', false)),
  wrapWith: metered(['int', 'string', 'string'], (budget, width, separator, text) =>
    wrap(budget, text, width, separator || '\n', true),
  ),
  indent: metered(['int', 'string'], indent),
  nindent: metered(['int', 'string'], (budget, spaces, text) => `\n${indent(budget, spaces, text)}`),
  plural: fn(['string', 'string', 'int'], (one, many, count) => (count === 1 ? one : many)),
  cat: meteredVariadic([], 'any', (budget, ...values) => spaced(budget, '%v', values)),
  quote: meteredVariadic([], 'any', (budget, ...values) =>
    values
      .filter((value) => value !== null)
      .map((value) => quote(textOf(budget, value)))
      .join(' '),
  ),
  squote: meteredVariadic([], 'any', (budget, ...values) => spaced(budget, "'%v'", values)),
  toString: metered(['any'], textOf),
  toStrings: metered(['any'], (budget, value) => strings(textsOf(budget, value))),
}
