import type { Budget } from '../budget.ts'
import { GoList, GoMap, type Value } from './values.ts'

export function deepCopy(budget: Budget, value: Value, depth = 0): Value {
  budget.spend(1)
  budget.depth(depth)
  if (value instanceof GoList) {
    const items = value.items.map((item) => deepCopy(budget, item, depth + 1))
    return new GoList(items, value.elem, value.isNil)
  }
  if (!(value instanceof GoMap)) return value
  const entries = value
    .entries(budget)
    .map(([key, item]) => [key, deepCopy(budget, item, depth + 1)] as const)
  return GoMap.of(entries, value.elem)
}
