import type { Budget } from '../budget.ts'
import { deepEqual } from '../values/compare.ts'
import { CallError } from '../errors.ts'
import { fn, type Functions, metered, meteredVariadic, variadic } from '../functions/functions.ts'
import { toInt64 } from './numbers.ts'
import { textOf, textsOf } from './text.ts'
import {
  compareBytes,
  GoList,
  isTrue,
  kindName,
  list,
  nilList,
  strings,
  type Value,
} from '../values/values.ts'

/** The items of what must be a list; `refusal` begins the message for what is none. */
function itemsOf(value: Value, refusal: string, after = ''): Value[] {
  if (value instanceof GoList) return value.items
  if (value === null || value === undefined) {
    throw new CallError('runtime error: invalid memory address or nil pointer dereference')
  }
  throw new CallError(`${refusal} type ${kindName(value)}${after}`)
}

const found = (name: string, value: Value): Value[] => itemsOf(value, `Cannot find ${name} on`)

const append = fn(['any', 'any'], (value, item) => list([...itemsOf(value, 'Cannot push on'), item]))
const prepend = fn(['any', 'any'], (value, item) => list([item, ...itemsOf(value, 'Cannot prepend on')]))
const first = fn(['any'], (value) => found('first', value)[0] ?? null)
const last = fn(['any'], (value) => found('last', value).at(-1) ?? null)
const reverse = fn(['any'], (value) => list(found('reverse', value).toReversed()))
const compact = fn(['any'], (value) => list(itemsOf(value, 'Cannot compact on').filter(isTrue)))

const rest = fn(['any'], (value) => {
  const items = found('rest', value)
  return items.length ? list(items.slice(1)) : nilList()
})

const initial = fn(['any'], (value) => {
  const items = found('initial', value)
  return items.length ? list(items.slice(0, -1)) : nilList()
})

const includes = (budget: Budget, items: readonly Value[], wanted: Value): boolean =>
  items.some((item) => deepEqual(budget, item, wanted))

const uniq = metered(['any'], (budget, value) => {
  const kept: Value[] = []
  for (const item of found('uniq', value)) if (!includes(budget, kept, item)) kept.push(item)
  return list(kept)
})

const without = meteredVariadic(['any'], 'any', (budget, value, ...omitted) =>
  list(found('without', value).filter((item) => !includes(budget, omitted, item))),
)

const has = metered(['any', 'any'], (budget, needle, haystack) =>
  haystack === null ? false : includes(budget, found('has', haystack), needle),
)

function sliceable(value: Value): Value[] {
  if (value instanceof GoList || value === null || value === undefined) return itemsOf(value, '')
  throw new CallError(`list should be type of slice or array but ${kindName(value)}`)
}

const slice = variadic(['any'], 'any', (value, ...bounds) => {
  const items = sliceable(value)
  if (!(value instanceof GoList) || items.length === 0) return null
  const [start, end] = [bounds[0] ?? 0, bounds.length > 1 ? bounds[1] : items.length].map((bound) =>
    Number(toInt64(bound)),
  ) as [number, number]
  if (start < 0 || end > items.length || start > end) {
    throw new CallError('reflect.Value.Slice: slice index out of bounds')
  }
  return new GoList(items.slice(start, end), value.elem)
})

const chunk = fn(['int', 'any'], (size, value) => {
  const items = itemsOf(value, 'Cannot chunk')
  if (size < 1) throw new CallError('runtime error: makeslice: len out of range')
  const chunks: GoList[] = []
  for (let at = 0; at < items.length; at += size) chunks.push(list(items.slice(at, at + size)))
  return new GoList(chunks, '[]interface {}')
})

/** Sorts texts where they are, as Go does: a list of strings is changed. */
function sortAlpha(budget: Budget, value: Value): GoList {
  if (!(value instanceof GoList)) return strings([textOf(budget, value)])
  const texts = textsOf(budget, value).toSorted(compareBytes)
  budget.spend(texts.length * Math.ceil(Math.log2(texts.length + 1)))
  if (value.elem === 'string') value.items.splice(0, texts.length, ...texts)
  return strings(texts)
}

const make = variadic([], 'any', (...items) => list(items))

export const LIST_FUNCTIONS: Functions = {
  list: make,
  tuple: make,
  append,
  push: append,
  mustAppend: append,
  mustPush: append,
  prepend,
  mustPrepend: prepend,
  first,
  mustFirst: first,
  last,
  mustLast: last,
  rest,
  mustRest: rest,
  initial,
  mustInitial: initial,
  reverse,
  mustReverse: reverse,
  compact,
  mustCompact: compact,
  uniq,
  mustUniq: uniq,
  without,
  mustWithout: without,
  has,
  mustHas: has,
  slice,
  mustSlice: slice,
  chunk,
  mustChunk: chunk,
  concat: variadic([], 'any', (...values) => {
    const items = values.flatMap((value) => itemsOf(value, 'Cannot concat', ' as list'))
    return items.length ? list(items) : nilList()
  }),
  sortAlpha: metered(['any'], sortAlpha),
}
