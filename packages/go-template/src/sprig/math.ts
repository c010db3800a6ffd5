import type { Budget } from '../budget.ts'
import {
  addDecimals,
  decimalOf,
  divideDecimals,
  multiplyDecimals,
  numberOf,
  type Decimal,
} from '../values/decimal.ts'
import { CallError } from '../errors.ts'
import { sprint } from '../values/format.ts'
import { fn, type Functions, metered, meteredVariadic, variadic } from '../functions/functions.ts'
import { parseDecimal, toFloat64, toInt64 } from './numbers.ts'
import { GoList, int, int64, type Value } from '../values/values.ts'

function nonZero(value: bigint): bigint {
  if (value === 0n) throw new CallError('runtime error: integer divide by zero')
  return value
}

function foldInts(first: Value, rest: Value[], step: (a: bigint, b: bigint) => bigint): Value {
  return int64(rest.map(toInt64).reduce((a, b) => BigInt.asIntN(64, step(a, b)), toInt64(first)))
}

/** Sprig computes floats in decimal, so that 0.1 and 0.2 make 0.3. */
function foldDecimals(first: Value, rest: Value[], step: (a: Decimal, b: Decimal) => Decimal): number {
  return numberOf(rest.map((value) => decimalOf(toFloat64(value))).reduce(step, decimalOf(toFloat64(first))))
}

const negate = ({ digits, exponent }: Decimal): Decimal => ({ digits: -digits, exponent })

function round(value: Value, places: number, roundOn = 0.5): number {
  const power = 10 ** places
  const scaled = power * toFloat64(value)
  const fraction = scaled - Math.trunc(scaled)
  return (fraction >= roundOn ? Math.ceil(scaled) : Math.floor(scaled)) / power
}

function steps(budget: Budget, start: number, stop: number, step: number): number[] {
  const goesDown = stop < start
  if (goesDown ? step >= 0 : step <= 0) return []
  const count = Math.ceil((stop - start) / step)
  budget.spend(count)
  return Array.from({ length: count }, (_, i) => start + i * step)
}

const ints = (values: number[]): GoList => new GoList(values.map(int), 'int')

function sequence(budget: Budget, params: number[]): string {
  if (params.length === 0 || params.length > 3) return ''
  const start = params.length === 1 ? 1 : (params[0] as number)
  const end = params.at(-1) as number
  const increment = end < start ? -1 : 1
  const step = params.length === 3 ? (params[1] as number) : increment
  if (increment < 0 && step > 0) return ''
  return steps(budget, start, end + increment, step).join(' ')
}

const biggest = variadic(['any'], 'any', (first, ...rest) => foldInts(first, rest, (a, b) => (b > a ? b : a)))

export const MATH_FUNCTIONS: Functions = {
  add: variadic([], 'any', (...values) => foldInts(null, values, (a, b) => a + b)),
  add1: fn(['any'], (value) => int64(toInt64(value) + 1n)),
  sub: fn(['any', 'any'], (a, b) => int64(toInt64(a) - toInt64(b))),
  mul: variadic(['any'], 'any', (first, ...rest) => foldInts(first, rest, (a, b) => a * b)),
  div: fn(['any', 'any'], (a, b) => int64(toInt64(a) / nonZero(toInt64(b)))),
  mod: fn(['any', 'any'], (a, b) => int64(toInt64(a) % nonZero(toInt64(b)))),
  max: biggest,
  biggest,
  min: variadic(['any'], 'any', (first, ...rest) => foldInts(first, rest, (a, b) => (b < a ? b : a))),
  maxf: variadic(['any'], 'any', (...values) => Math.max(...values.map(toFloat64))),
  minf: variadic(['any'], 'any', (...values) => Math.min(...values.map(toFloat64))),
  addf: variadic([], 'any', (...values) => foldDecimals(0, values, addDecimals)),
  add1f: fn(['any'], (value) => foldDecimals(value, [1], addDecimals)),
  subf: variadic(['any'], 'any', (first, ...rest) =>
    foldDecimals(first, rest, (a, b) => addDecimals(a, negate(b))),
  ),
  mulf: variadic(['any'], 'any', (first, ...rest) => foldDecimals(first, rest, multiplyDecimals)),
  divf: variadic(['any'], 'any', (first, ...rest) => foldDecimals(first, rest, divideDecimals)),
  round: variadic(['any', 'int'], 'float64', round),
  floor: fn(['any'], (value) => Math.floor(toFloat64(value))),
  ceil: fn(['any'], (value) => Math.ceil(toFloat64(value))),
  int: fn(['any'], (value) => int(toInt64(value))),
  int64: fn(['any'], (value) => int64(toInt64(value))),
  float64: fn(['any'], toFloat64),
  atoi: fn(['string'], (text) => int(parseDecimal(text, 10))),
  toDecimal: metered(['any'], (budget, value) => int64(parseOctal(sprint(budget, [value])))),
  until: metered(['int'], (budget, count) => ints(steps(budget, 0, count, count < 0 ? -1 : 1))),
  untilStep: metered(['int', 'int', 'int'], (budget, start, stop, step) =>
    ints(steps(budget, start, stop, step)),
  ),
  seq: meteredVariadic([], 'int', (budget, ...params) => sequence(budget, params)),
}

/** Out of range is 0 here, as Sprig drops the value with the error. */
function parseOctal(text: string): bigint {
  const value = parseDecimal(text, 8)
  return value === 2n ** 63n - 1n || value === -(2n ** 63n) ? 0n : value
}
