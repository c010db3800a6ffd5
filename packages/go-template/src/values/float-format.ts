/** Go's `strconv.FormatFloat`, exact: JavaScript rounds halves up where Go rounds them to even. */

interface Decimal {
  /** Significant digits, without leading zeros; empty for zero. */
  digits: string
  /** Where the decimal point stands: 0.d1d2… × 10^point. */
  point: number
}

export type FloatFormat = 'e' | 'E' | 'f' | 'g' | 'G' | 'x' | 'X' | 'b'

/** `precision` of -1 asks for the shortest text that reads back as the same number. */
export function formatFloat(value: number, format: FloatFormat, precision: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf'
  const sign = value < 0 || Object.is(value, -0) ? '-' : ''
  const size = Math.abs(value)
  switch (format) {
    case 'b':
      return sign + binary(size)
    case 'x':
      return sign + hexadecimal(size, precision)
    case 'X':
      return sign + hexadecimal(size, precision).toUpperCase()
    case 'e':
      return sign + exponential(size, precision)
    case 'E':
    case 'G':
      return formatFloat(value, format === 'E' ? 'e' : 'g', precision).toUpperCase()
    case 'f':
      return sign + fixed(precision < 0 ? shortest(size) : rounded(size, precision, true), precision)
    case 'g':
      return sign + general(size, precision)
  }
}

function shortest(size: number): Decimal {
  if (size === 0) return { digits: '', point: 0 }
  const [mantissa = '', exponent = ''] = size.toExponential().split('e')
  return { digits: mantissa.replace('.', ''), point: Number(exponent) + 1 }
}

function parts(size: number): { mantissa: bigint; exponent: number } {
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, size)
  const bits = view.getBigUint64(0)
  const exponent = Number(bits >> 52n)
  const fraction = bits & 0xfffffffffffffn
  if (exponent === 0) return { mantissa: fraction, exponent: -1074 }
  return { mantissa: fraction | 0x10000000000000n, exponent: exponent - 1075 }
}

function exact(size: number): Decimal {
  if (size === 0) return { digits: '', point: 0 }
  const { mantissa, exponent } = parts(size)
  const scaled = exponent >= 0 ? mantissa << BigInt(exponent) : mantissa * 5n ** BigInt(-exponent)
  const digits = scaled.toString()
  return { digits, point: digits.length + Math.min(exponent, 0) }
}

/** Rounds half to even: to `places` after the point, or to that many significant digits. */
function rounded(size: number, places: number, afterPoint: boolean): Decimal {
  const { digits, point } = exact(size)
  const keep = afterPoint ? point + places : places
  if (keep >= digits.length) return { digits, point }
  if (keep < 0) return { digits: '', point: 0 }
  const head = digits.slice(0, keep)
  const next = digits.charCodeAt(keep) - 48
  const tie = next === 5 && /^0*$/.test(digits.slice(keep + 1))
  const odd = keep > 0 && (digits.charCodeAt(keep - 1) - 48) % 2 === 1
  if (next < 5 || (tie && !odd)) return { digits: head, point: head ? point : 0 }
  const up = (BigInt(head || '0') + 1n).toString()
  return { digits: up, point: point + (up.length - head.length) }
}

function fixed({ digits, point }: Decimal, precision: number): string {
  const whole = point > 0 ? digits.slice(0, point).padEnd(point, '0') : '0'
  const fraction = point > 0 ? digits.slice(point) : digits && '0'.repeat(-point) + digits
  const wanted = precision < 0 ? fraction : fraction.padEnd(precision, '0').slice(0, precision)
  return wanted ? `${whole}.${wanted}` : whole
}

function scientific({ digits, point }: Decimal, places: number): string {
  const fraction = digits.slice(1).padEnd(places, '0').slice(0, places)
  const exponent = digits ? point - 1 : 0
  const tail = `${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
  return `${digits[0] ?? '0'}${fraction ? `.${fraction}` : ''}e${tail}`
}

function exponential(size: number, precision: number): string {
  if (precision >= 0) return scientific(rounded(size, precision + 1, false), precision)
  const decimal = shortest(size)
  return scientific(decimal, Math.max(decimal.digits.length - 1, 0))
}

function general(size: number, precision: number): string {
  const isShortest = precision < 0
  const decimal = isShortest ? shortest(size) : rounded(size, precision || 1, false)
  const digits = decimal.digits.replace(/0+$/, '')
  const trimmed = { digits, point: decimal.point }
  let limit = precision || 1
  if (limit > digits.length && digits.length >= decimal.point) limit = digits.length
  if (isShortest) limit = 6
  const exponent = digits ? decimal.point - 1 : -1
  if (exponent < -4 || exponent >= limit) return scientific(trimmed, Math.max(digits.length - 1, 0))
  return fixed(trimmed, -1)
}

function binary(size: number): string {
  const { mantissa, exponent } = parts(size)
  return `${mantissa}p${exponent < 0 ? '' : '+'}${exponent}`
}

function hexadecimal(size: number, precision: number): string {
  let { mantissa, exponent } = parts(size)
  if (mantissa === 0n) exponent = 0
  else {
    const shift = 53 - mantissa.toString(2).length
    mantissa <<= BigInt(shift)
    exponent += 52 - shift
  }
  if (precision >= 0 && precision < 13) {
    const drop = BigInt(4 * (13 - precision))
    const half = 1n << (drop - 1n)
    const rest = mantissa & ((1n << drop) - 1n)
    const odd = ((mantissa >> drop) & 1n) === 1n
    mantissa = (mantissa >> drop) + (rest > half || (rest === half && odd) ? 1n : 0n)
    mantissa <<= drop
    if (mantissa >> 53n) {
      mantissa >>= 1n
      exponent++
    }
  }
  const digits = (mantissa & 0xfffffffffffffn).toString(16).padStart(13, '0')
  const fraction =
    precision < 0 ? digits.replace(/0+$/, '') : digits.padEnd(precision, '0').slice(0, precision)
  const tail = `${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
  return `0x${mantissa >> 52n}${fraction ? `.${fraction}` : ''}p${tail}`
}
