import type { Budget } from '../budget.ts'
import { deepCopy } from '../values/deep-copy.ts'
import { CallError } from '../errors.ts'
import { fn, type Functions, metered, meteredVariadic, variadic } from '../functions/functions.ts'
import { textOf } from './text.ts'
import { GoMap, isTrue, list, strings, typeName, type Value } from '../values/values.ts'

function writable(map: GoMap): GoMap {
  if (map.isNil) throw new CallError('assignment to entry in nil map')
  return map
}

function makeDict(budget: Budget, values: Value[]): GoMap {
  const dict = new GoMap()
  for (let i = 0; i < values.length; i += 2) {
    dict.set(textOf(budget, values[i]), i + 1 < values.length ? values[i + 1] : '')
  }
  return dict
}

/**
 * Copies members of `source` into `target`, map into map. What is there stays, unless it is empty or
 * `overwrites`; a map never replaces a text or a number that is there.
 */
function mergeInto(budget: Budget, target: GoMap, source: GoMap, overwrites: boolean, depth = 0): void {
  budget.depth(depth)
  for (const [key, value] of source.entries(budget)) {
    budget.spend(1)
    const present = target.get(key)
    if (value === null) {
      if (overwrites) target.set(key, null)
    } else if (value instanceof GoMap && isTrue(present)) {
      if (present instanceof GoMap) mergeInto(budget, present, value, overwrites, depth + 1)
    } else if (overwrites || !isTrue(present)) {
      target.set(key, value)
    }
  }
}

function merge(overwrites: boolean) {
  return meteredVariadic(['dict'], 'dict', (budget, target, ...sources) => {
    for (const source of sources) mergeInto(budget, writable(target), source, overwrites)
    return target
  })
}

const copy = metered(['any'], (budget, value) => {
  if (value === null) throw new CallError('reflect: call of reflect.Value.Type on zero Value')
  return deepCopy(budget, value)
})

const conversion = (value: Value, wanted: string): CallError =>
  new CallError(
    `interface conversion: interface {} is ${value === null ? 'nil' : typeName(value)}, not ${wanted}`,
  )

function dig(...args: Value[]): Value {
  if (args.length < 3) throw new CallError('dig needs at least three arguments')
  const path = args.slice(0, -2)
  const fallback = args.at(-2)
  let value = args.at(-1)
  if (!isDict(value)) throw conversion(value, 'map[string]interface {}')
  for (const key of path) if (typeof key !== 'string') throw conversion(key, 'string')
  for (const key of path as string[]) {
    if (!isDict(value)) throw conversion(value, 'map[string]interface {}')
    if (!value.has(key)) return fallback
    value = value.get(key)
  }
  return value
}

const isDict = (value: Value): value is GoMap => value instanceof GoMap && value.elem === 'interface {}'

const mergeKeeping = merge(false)
const mergeOver = merge(true)

export const DICT_FUNCTIONS: Functions = {
  dict: meteredVariadic([], 'any', (budget, ...values) => makeDict(budget, values)),
  get: fn(['dict', 'string'], (dict, key) => (dict.has(key) ? dict.get(key) : '')),
  set: fn(['dict', 'string', 'any'], (dict, key, value) => {
    writable(dict).set(key, value)
    return dict
  }),
  unset: fn(['dict', 'string'], (dict, key) => {
    dict.delete(key)
    return dict
  }),
  hasKey: fn(['dict', 'string'], (dict, key) => dict.has(key)),
  pluck: variadic(['string'], 'dict', (key, ...dicts) =>
    list(dicts.filter((dict) => dict.has(key)).map((dict) => dict.get(key))),
  ),
  keys: meteredVariadic([], 'dict', (budget, ...dicts) =>
    strings(dicts.flatMap((dict) => dict.keys(budget))),
  ),
  values: metered(['dict'], (budget, dict) => list(dict.entries(budget).map(([, value]) => value))),
  pick: variadic(['dict'], 'string', (dict, ...keys) =>
    GoMap.of(keys.filter((key) => dict.has(key)).map((key) => [key, dict.get(key)])),
  ),
  omit: meteredVariadic(['dict'], 'string', (budget, dict, ...keys) => {
    const omitted = new Set(keys)
    return GoMap.of(dict.entries(budget).filter(([key]) => !omitted.has(key)))
  }),
  merge: mergeKeeping,
  mustMerge: mergeKeeping,
  mergeOverwrite: mergeOver,
  mustMergeOverwrite: mergeOver,
  deepCopy: copy,
  mustDeepCopy: copy,
  dig: variadic([], 'any', dig),
}
