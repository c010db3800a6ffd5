import type { Budget } from '../budget.ts'
import { sprintf } from '../values/format.ts'
import { printValue } from '../values/print.ts'
import { GoList, isObject, type Value } from '../values/values.ts'

/** Sprig's `strval`: any value as a byte string. */
export function textOf(budget: Budget, value: Value): string {
  if (typeof value === 'string') return value
  return isObject(value) ? value.text() : printValue(budget, value, 'v')
}

/** Sprig's `strslice`: any value as texts; nils in a list are left out. */
export function textsOf(budget: Budget, value: Value): string[] {
  if (value === undefined || value === null) return []
  if (!(value instanceof GoList)) return [textOf(budget, value)]
  return value.items.filter((item) => item !== null && item !== undefined).map((item) => textOf(budget, item))
}

/** Operands side by side, nils left out, each by its own verb. */
export function spaced(budget: Budget, verb: string, values: readonly Value[]): string {
  const present = values.filter((value) => value !== null && value !== undefined)
  return sprintf(budget, present.map(() => verb).join(' '), present)
}
