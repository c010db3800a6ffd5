import { fitsInt64, parseFloatLiteral, parseIntegerLiteral } from '../syntax/literals.ts'
import { Int, type Value } from '../values/values.ts'

const MAX_INT = 2n ** 63n - 1n
const MIN_INT = -(2n ** 63n)

/** Any value as an int64: text that is no number, lists and nil are 0. */
export function toInt64(value: Value): bigint {
  if (value instanceof Int) return BigInt.asIntN(64, value.value)
  if (typeof value === 'boolean') return value ? 1n : 0n
  if (typeof value === 'number') {
    const whole = Math.trunc(value)
    return Math.abs(whole) < 2 ** 63 ? BigInt(whole) : MIN_INT
  }
  if (typeof value !== 'string') return 0n
  const parsed = parseIntegerLiteral(value)
  return fitsInt64(parsed) ? parsed : 0n
}

/** Any value as a float64, by the same rules. */
export function toFloat64(value: Value): number {
  if (typeof value === 'number') return value
  if (value instanceof Int) return Number(value.value)
  if (typeof value === 'boolean') return value ? 1 : 0
  return typeof value === 'string' ? (parseFloatLiteral(value) ?? 0) : 0
}

/** Go's `strconv.ParseInt` in a base; a value out of range gives the nearest, bad syntax 0. */
export function parseDecimal(text: string, base: 8 | 10): bigint {
  const [, sign, digits] = (base === 8 ? /^([+-]?)([0-7]+)$/ : /^([+-]?)([0-9]+)$/).exec(text) ?? []
  if (digits === undefined) return 0n
  const value = BigInt(base === 8 ? `0o${digits}` : digits) * (sign === '-' ? -1n : 1n)
  return value > MAX_INT ? MAX_INT : value < MIN_INT ? MIN_INT : value
}
