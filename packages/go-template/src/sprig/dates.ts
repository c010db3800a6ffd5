import { fn, type Functions } from '../functions/functions.ts'
import { parseDecimal } from './numbers.ts'
import { Int, type Value } from '../values/values.ts'

/** Go's `time.Duration` of whole seconds, as text. */
function durationText(seconds: bigint): string {
  const nanoseconds = BigInt.asIntN(64, seconds * 1_000_000_000n)
  const size = nanoseconds < 0n ? -nanoseconds : nanoseconds
  const whole = size / 1_000_000_000n
  const fraction = (size % 1_000_000_000n).toString().padStart(9, '0').replace(/0+$/, '')
  const [hours, minutes, rest] = [whole / 3600n, (whole / 60n) % 60n, whole % 60n]
  const lead = hours > 0n ? `${hours}h${minutes}m` : minutes > 0n ? `${minutes}m` : ''
  return `${nanoseconds < 0n ? '-' : ''}${lead}${rest}${fraction && `.${fraction}`}s`
}

/** Only text and int64 count as seconds: anything else is none. */
function duration(value: Value): string {
  if (typeof value === 'string') return durationText(parseDecimal(value, 10))
  return durationText(value instanceof Int && value.kind === 'int64' ? value.value : 0n)
}

/** Of Sprig's dates only what needs no clock and no time zone. */
export const DATE_FUNCTIONS: Functions = {
  duration: fn(['any'], duration),
}
