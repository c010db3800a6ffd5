import type { Budget } from '../budget.ts'
import { decodeText, encodeText, isAscii } from './bytes.ts'
import type { GoFunction } from '../functions/functions.ts'

/**
 * What a template computes with. `undefined` is Go's invalid value (a missing key, a bare nil), `null` an
 * interface that holds nil; a JavaScript number is a float64; strings are byte strings.
 */
export type Value = undefined | null | string | boolean | number | Int | Complex | GoList | GoMap | GoObject

export type IntKind = 'int' | 'int32' | 'int64' | 'uint8' | 'uint64'

export class Int {
  readonly value: bigint
  readonly kind: IntKind

  constructor(value: bigint, kind: IntKind) {
    this.value = value
    this.kind = kind
  }
}

export const int = (value: number | bigint): Int => new Int(BigInt(value), 'int')
export const int64 = (value: bigint): Int => new Int(BigInt.asIntN(64, value), 'int64')

export class Complex {
  readonly real: number
  readonly imaginary: number

  constructor(real: number, imaginary: number) {
    this.real = real
    this.imaginary = imaginary
  }
}

/** A Go slice: `elem` is the type of its elements, and a nil slice is not the same as an empty one. */
export class GoList {
  readonly items: Value[]
  readonly elem: string
  readonly isNil: boolean

  constructor(items: Value[], elem = 'interface {}', isNil = false) {
    this.items = items
    this.elem = elem
    this.isNil = isNil
  }
}

export const list = (items: Value[]): GoList => new GoList(items)
export const strings = (items: string[]): GoList => new GoList(items, 'string')
export const nilList = (): GoList => new GoList([], 'interface {}', true)

/** A Go map with string keys. Made over JSON data, it converts a member when that is first read. */
export class GoMap {
  readonly elem: string
  readonly isNil: boolean
  readonly #entries = new Map<string, Value>()
  #source: Readonly<Record<string, unknown>> | undefined

  constructor(elem = 'interface {}', source?: Readonly<Record<string, unknown>>, isNil = false) {
    this.elem = elem
    this.#source = source
    this.isNil = isNil
  }

  static of(entries: Iterable<readonly [string, Value]>, elem?: string): GoMap {
    const map = new GoMap(elem)
    for (const [key, value] of entries) map.#entries.set(key, value)
    return map
  }

  has(key: string): boolean {
    return this.#entries.has(key) || this.#sourceKey(key) !== undefined
  }

  get(key: string): Value {
    const known = this.#entries.get(key)
    if (known !== undefined || !this.#source) return known
    const sourceKey = this.#sourceKey(key)
    if (sourceKey === undefined) return undefined
    const value = fromData(this.#source[sourceKey])
    this.#entries.set(key, value)
    return value
  }

  set(key: string, value: Value): void {
    this.#settle().set(key, value ?? null)
  }

  delete(key: string): void {
    this.#settle().delete(key)
  }

  get size(): number {
    return this.#settle().size
  }

  /** In Go's printing order: by bytes. Listing a map is work, and is paid for. */
  keys(budget: Budget): string[] {
    budget.spend(this.size)
    return [...this.#settle().keys()].toSorted(compareBytes)
  }

  entries(budget: Budget): [string, Value][] {
    return this.keys(budget).map((key) => [key, this.get(key)])
  }

  #sourceKey(key: string): string | undefined {
    if (!this.#source) return undefined
    const sourceKey = isAscii(key) ? key : decodeText(key)
    return Object.hasOwn(this.#source, sourceKey) ? sourceKey : undefined
  }

  #settle(): Map<string, Value> {
    const source = this.#source
    if (source) {
      for (const key of Object.keys(source)) this.get(encodeText(key))
      this.#source = undefined
    }
    return this.#entries
  }
}

/** A value with methods, such as a semantic version. */
export interface GoObject {
  readonly goType: string
  readonly goKind: 'ptr' | 'struct'
  readonly methods: Readonly<Record<string, GoFunction>>
  /** What Go's Stringer would give, as a byte string. */
  text(): string
}

export function compareBytes(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** JSON data as a Go value, as `encoding/json` decodes it into an interface. */
export function fromData(data: unknown): Value {
  if (typeof data === 'string') return encodeText(data)
  if (typeof data === 'number' || typeof data === 'boolean') return data
  if (typeof data === 'bigint') return int64(data)
  if (Array.isArray(data)) return list(data.map(fromData))
  if (typeof data === 'object' && data !== null) {
    return new GoMap('interface {}', data as Readonly<Record<string, unknown>>)
  }
  return null
}

export function isObject(value: Value): value is GoObject {
  return typeof value === 'object' && value !== null && 'goType' in value
}

export function typeName(value: Value): string {
  if (value === undefined || value === null) return '<nil>'
  if (typeof value === 'string') return 'string'
  if (typeof value === 'boolean') return 'bool'
  if (typeof value === 'number') return 'float64'
  if (value instanceof Int) return value.kind
  if (value instanceof Complex) return 'complex128'
  if (value instanceof GoList) return `[]${value.elem}`
  if (value instanceof GoMap) return `map[string]${value.elem}`
  return value.goType
}

export function kindName(value: Value): string {
  if (value === undefined || value === null) return 'invalid'
  if (value instanceof GoList) return 'slice'
  if (value instanceof GoMap) return 'map'
  return isObject(value) ? value.goKind : typeName(value)
}

/** What `if` takes for true. Sprig's `empty` is its opposite. */
export function isTrue(value: Value): boolean {
  if (value === undefined || value === null) return false
  if (typeof value === 'boolean') return value
  if (typeof value === 'string') return value !== ''
  if (typeof value === 'number') return value !== 0
  if (value instanceof Int) return value.value !== 0n
  if (value instanceof Complex) return value.real !== 0 || value.imaginary !== 0
  if (value instanceof GoList) return value.items.length > 0
  if (value instanceof GoMap) return value.size > 0
  return true
}

/** Whether there is nothing: no value, a nil in an interface, a nil list or map. */
export function isMissing(value: Value): boolean {
  if (value instanceof GoList || value instanceof GoMap) return value.isNil
  return value === undefined || value === null
}
