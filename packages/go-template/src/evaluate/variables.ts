import type { Value } from '../values/values.ts'

/** The variables of one template while it runs, innermost last. */
export class Variables {
  #known: { name: string; value: Value }[]

  constructor(data: Value) {
    this.#known = [{ name: '$', value: data }]
  }

  /** How many there are, which is what `backTo` takes. */
  get count(): number {
    return this.#known.length
  }

  backTo(count: number): void {
    this.#known.length = count
  }

  declare(name: string, value: Value): void {
    this.#known.push({ name, value })
  }

  valueOf(name: string): Value {
    return this.#find(name)?.value
  }

  /** False when there is no such variable. */
  assign(name: string, value: Value): boolean {
    const variable = this.#find(name)
    if (!variable) return false
    variable.value = value
    return true
  }

  /** Those of a `range` were declared with its pipeline, and are replaced at each element. */
  replaceLast(values: readonly (readonly [name: string, value: Value])[]): void {
    const from = this.#known.length - values.length
    for (const [i, [name, value]] of values.entries()) this.#known[from + i] = { name, value }
  }

  #find(name: string): { name: string; value: Value } | undefined {
    return this.#known.findLast((known) => known.name === name)
  }
}
