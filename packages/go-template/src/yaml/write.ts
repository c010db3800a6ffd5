import type { Budget } from '../budget.ts'
import { decodeText, encodeText, RUNE_ERROR, runesOf } from '../values/bytes.ts'
import { formatFloat } from '../values/float-format.ts'
import { jsonScalar } from '../values/go-json.ts'
import { isDigit, isLetter } from '../values/unicode.ts'
import { GoList, GoMap, isObject, type Value } from '../values/values.ts'
import { literalStyle, plainOrQuoted } from './scalar.ts'

/** What sigs.k8s.io/yaml writes. Throws a CallError for what JSON cannot say, as that goes by way of JSON. */
export function toYaml(budget: Budget, value: Value): string {
  const text = write(budget, value, 0, 'root')
  budget.text(text.length)
  return encodeText(text.replace(/\n$/, ''))
}

type Context = 'root' | 'item' | 'member'

/** One node with what must stand before it; ends with a line break. */
function write(budget: Budget, value: Value, indent: number, context: Context): string {
  budget.spend(1)
  budget.depth(indent / 2)
  if (value instanceof GoMap && value.size > 0) return writeMap(budget, value, indent, context)
  if (value instanceof GoList && value.items.length > 0) return writeList(budget, value, indent, context)
  const lead = context === 'member' ? ' ' : ''
  return `${lead}${scalar(value, indent, context)}\n`
}

function writeMap(budget: Budget, map: GoMap, indent: number, context: Context): string {
  const pad = ' '.repeat(indent)
  const keys = map.keys(budget).toSorted(byNaturalOrder)
  const lines = keys.map((key) => {
    const name = plainOrQuoted(decodeText(key), { indent, column: 0, isKey: true })
    const value = map.get(key)
    const inner = value instanceof GoList ? indent : indent + 2
    budget.text(indent + name.length)
    return `${name}:${write(budget, value, inner, 'member')}`
  })
  return joined(lines, pad, context)
}

function writeList(budget: Budget, list: GoList, indent: number, context: Context): string {
  const pad = ' '.repeat(indent)
  const lines = list.items.map((item) => {
    budget.text(indent)
    return `- ${write(budget, item, indent + 2, 'item')}`
  })
  return joined(lines, pad, context)
}

/** The first line of what stands in a list follows its dash. */
function joined(lines: string[], pad: string, context: Context): string {
  const lead = context === 'member' ? `\n${pad}` : context === 'item' ? '' : pad
  return lead + lines.join(pad)
}

function scalar(value: Value, indent: number, context: Context): string {
  if (value instanceof GoMap && !value.isNil) return '{}'
  if (value instanceof GoList && !value.isNil) return '[]'
  const bytes = isObject(value) ? value.text() : value
  if (typeof bytes === 'number' && !Number.isInteger(bytes)) {
    jsonScalar(bytes)
    return formatFloat(bytes, 'g', -1)
  }
  if (typeof bytes === 'number' && Math.abs(bytes) >= 2 ** 64) return formatFloat(bytes, 'g', -1)
  if (typeof bytes !== 'string') return jsonScalar(bytes)
  const text = decodeText(bytes)
  const at = context === 'root' ? 2 : indent
  const literal = text.includes('\n') ? literalStyle(text, at) : undefined
  return literal ?? plainOrQuoted(text, { indent: at, column: at, isKey: false })
}

/** yaml.v2 orders keys as a person would: `item9` before `item10`, what is no letter before letters. */
function byNaturalOrder(left: string, right: string): number {
  const [a, b] = [runesOf(left), runesOf(right)]
  const shared = Math.min(a.length, b.length)
  let i = 0
  while (i < shared && a[i] === b[i]) i++
  if (i === shared) return a.length - b.length
  const [x, y] = [a[i] ?? RUNE_ERROR, b[i] ?? RUNE_ERROR]
  if (isLetter(x) && isLetter(y)) return x - y
  if (isLetter(x) || isLetter(y)) return isLetter(y) ? -1 : 1
  const leading = x === 48 || y === 48 ? significantBefore(a, i) : 0n
  const [an, bn] = [numberAt(a, i, leading), numberAt(b, i, leading)]
  if (an.value !== bn.value) return an.value < bn.value ? -1 : 1
  return an.end === bn.end ? x - y : an.end - bn.end
}

/** A zero counts only after another digit. */
function significantBefore(runes: number[], at: number): bigint {
  for (let j = at - 1; j >= 0 && isDigit(runes[j] as number); j--) if (runes[j] !== 48) return 1n
  return 0n
}

function numberAt(runes: number[], at: number, start: bigint): { value: bigint; end: number } {
  let [value, end] = [start, at]
  for (; end < runes.length && end < at + 32 && isDigit(runes[end] as number); end++) {
    value = value * 10n + BigInt((runes[end] as number) - 48)
  }
  return { value, end }
}
