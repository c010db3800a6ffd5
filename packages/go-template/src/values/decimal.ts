import { CallError } from '../errors.ts'

/** digits × 10^exponent. */
export interface Decimal {
  digits: bigint
  exponent: number
}

/** How many places a quotient keeps. */
const DIVISION_PLACES = 16

/** The shortest decimal that reads back as the number. */
export function decimalOf(value: number): Decimal {
  if (!Number.isFinite(value)) throw new CallError(`Cannot create a Decimal from ${value}`)
  const [mantissa = '0', exponent = '0'] = value.toExponential().split('e')
  const places = mantissa.split('.')[1]?.length ?? 0
  return { digits: BigInt(mantissa.replace('.', '')), exponent: Number(exponent) - places }
}

export function numberOf({ digits, exponent }: Decimal): number {
  return Number(`${digits}e${exponent}`)
}

function scaledTo({ digits, exponent }: Decimal, to: number): bigint {
  return digits * 10n ** BigInt(exponent - to)
}

export function addDecimals(a: Decimal, b: Decimal): Decimal {
  const exponent = Math.min(a.exponent, b.exponent)
  return { digits: scaledTo(a, exponent) + scaledTo(b, exponent), exponent }
}

export function multiplyDecimals(a: Decimal, b: Decimal): Decimal {
  return { digits: a.digits * b.digits, exponent: a.exponent + b.exponent }
}

const size = (value: bigint): bigint => (value < 0n ? -value : value)

/** Rounds half away from zero at the last place it keeps. */
export function divideDecimals(a: Decimal, b: Decimal): Decimal {
  if (b.digits === 0n) throw new CallError('decimal division by 0')
  const shift = a.exponent - b.exponent + DIVISION_PLACES
  const dividend = shift >= 0 ? a.digits * 10n ** BigInt(shift) : a.digits
  const divisor = shift >= 0 ? b.digits : b.digits * 10n ** BigInt(-shift)
  const quotient = dividend / divisor
  const rest = dividend % divisor
  const away = 2n * size(rest) >= size(divisor)
  const sign = dividend < 0n === divisor < 0n ? 1n : -1n
  return { digits: quotient + (away ? sign : 0n), exponent: -DIVISION_PLACES }
}
