import { deepEqual } from '../values/compare.ts'
import { CallError } from '../errors.ts'
import { fn, type Functions, metered, variadic } from '../functions/functions.ts'
import { isTrue, kindName, typeName } from '../values/values.ts'

/** Defaults, choices and questions about types. */
export const TYPE_FUNCTIONS: Functions = {
  default: variadic(['any'], 'any', (fallback, ...given) => (isTrue(given[0]) ? given[0] : fallback)),
  empty: fn(['any'], (value) => !isTrue(value)),
  coalesce: variadic([], 'any', (...values) => values.find(isTrue) ?? null),
  all: variadic([], 'any', (...values) => values.every(isTrue)),
  any: variadic([], 'any', (...values) => values.some(isTrue)),
  ternary: fn(['any', 'any', 'bool'], (yes, no, condition) => (condition ? yes : no)),
  fail: fn(['string'], (message) => {
    throw new CallError(message)
  }),
  typeOf: fn(['any'], typeName),
  typeIs: fn(['string', 'any'], (name, value) => typeName(value) === name),
  typeIsLike: fn(['string', 'any'], (name, value) => [name, `*${name}`].includes(typeName(value))),
  kindOf: fn(['any'], kindName),
  kindIs: fn(['string', 'any'], (kind, value) => kindName(value) === kind),
  deepEqual: metered(['any', 'any'], (budget, a, b) => deepEqual(budget, a, b)),
}
