import type { Budget } from '../budget.ts'
import { CallError } from '../errors.ts'
import { printValue } from './print.ts'
import { Complex, GoList, GoMap, Int, isObject, typeName, type Value } from './values.ts'

type BasicKind = 'bool' | 'complex' | 'float' | 'int' | 'string' | 'none'

function basicKind(value: Value): BasicKind {
  if (typeof value === 'string') return 'string'
  if (typeof value === 'boolean') return 'bool'
  if (typeof value === 'number') return 'float'
  if (value instanceof Int) return 'int'
  return value instanceof Complex ? 'complex' : 'none'
}

const isNil = (value: Value): boolean => value === undefined || value === null

/** Go's `eq` of two values: ints of all sizes compare, an int and a float do not. */
export function equalValues(budget: Budget, a: Value, b: Value): boolean {
  if (basicKind(a) !== basicKind(b)) {
    if (isNil(a) || isNil(b)) return false
    throw new CallError('incompatible types for comparison')
  }
  if (a instanceof Int && b instanceof Int) return a.value === b.value
  if (a instanceof Complex && b instanceof Complex) {
    return a.real === b.real && a.imaginary === b.imaginary
  }
  if (basicKind(a) !== 'none') return a === b
  if (isNil(a) || isNil(b)) return isNil(a) && isNil(b)
  if (a instanceof GoList || a instanceof GoMap) {
    throw new CallError(`non-comparable type ${printValue(budget, a, 's')}: ${typeName(a)}`)
  }
  return a === b
}

/** Go's order of two values: negative, zero or positive. */
export function compareValues(a: Value, b: Value): number {
  const [left, right] = [basicKind(a), basicKind(b)]
  if (left === 'none' || right === 'none') throw new CallError('invalid type for comparison')
  if (left !== right) throw new CallError('incompatible types for comparison')
  if (left === 'bool' || left === 'complex') throw new CallError('invalid type for comparison')
  if (a instanceof Int && b instanceof Int) return a.value < b.value ? -1 : a.value > b.value ? 1 : 0
  const [x, y] = [a as string | number, b as string | number]
  return x < y ? -1 : x > y ? 1 : x === y ? 0 : Number.NaN
}

/** Go's `reflect.DeepEqual`: the types count too. */
export function deepEqual(budget: Budget, a: Value, b: Value, depth = 0): boolean {
  budget.spend(1)
  budget.depth(depth)
  if (isNil(a) || isNil(b)) return isNil(a) && isNil(b)
  if (typeName(a) !== typeName(b)) return false
  if (a instanceof Int && b instanceof Int) return a.value === b.value
  if (a instanceof Complex && b instanceof Complex) {
    return a.real === b.real && a.imaginary === b.imaginary
  }
  if (a instanceof GoList && b instanceof GoList) {
    if (a.isNil !== b.isNil || a.items.length !== b.items.length) return false
    return a.items.every((item, i) => deepEqual(budget, item, b.items[i], depth + 1))
  }
  if (a instanceof GoMap && b instanceof GoMap) {
    if (a.isNil !== b.isNil || a.size !== b.size) return false
    return a.keys(budget).every((key) => b.has(key) && deepEqual(budget, a.get(key), b.get(key), depth + 1))
  }
  if (isObject(a) && isObject(b)) return a.text() === b.text()
  if (typeof a === 'string' && typeof b === 'string') budget.text(Math.min(a.length, b.length))
  return a === b
}
