import type { Budget } from '../budget.ts'
import { runeAt } from './bytes.ts'
import { type Flags, NO_FLAGS, printValue } from './print.ts'
import { Int, typeName, type Value } from './values.ts'

/** Beyond this Go refuses a width or a precision. */
const MAX_WIDTH = 1_000_000

/** Go's `fmt.Sprintf`, over byte strings. */
export function sprintf(budget: Budget, format: string, args: readonly Value[]): string {
  return new Formatter(budget, format, args).run()
}

/** Go's `fmt.Sprint`: a space between two operands when neither is a string. */
export function sprint(budget: Budget, args: readonly Value[]): string {
  let out = ''
  for (const [i, arg] of args.entries()) {
    const spaced = i > 0 && typeof arg !== 'string' && typeof args[i - 1] !== 'string'
    out += (spaced ? ' ' : '') + printValue(budget, arg, 'v')
    budget.text(out.length)
  }
  return out
}

export function sprintln(budget: Budget, args: readonly Value[]): string {
  return `${args.map((arg) => printValue(budget, arg, 'v')).join(' ')}\n`
}

class Formatter {
  readonly #budget: Budget
  readonly #format: string
  readonly #args: readonly Value[]
  #at = 0
  #next = 0
  #reordered = false
  #goodIndex = true
  #afterIndex = false

  constructor(budget: Budget, format: string, args: readonly Value[]) {
    this.#budget = budget
    this.#format = format
    this.#args = args
  }

  run(): string {
    let out = ''
    while (this.#at < this.#format.length) {
      const percent = this.#format.indexOf('%', this.#at)
      const end = percent < 0 ? this.#format.length : percent
      out += this.#format.slice(this.#at, end)
      this.#at = end + 1
      if (percent >= 0) out += this.#verb()
      if (out.length > this.#budget.limits.outputBytes) this.#budget.text(out.length)
    }
    return out + this.#extra()
  }

  #verb(): string {
    this.#goodIndex = true
    this.#afterIndex = false
    const flags = this.#flags()
    let trouble = ''
    this.#index()
    if (this.#peek() === '*') {
      this.#at++
      const width = this.#number()
      if (width === undefined) trouble += '%!(BADWIDTH)'
      flags.width = width === undefined ? undefined : Math.abs(width)
      if (width !== undefined && width < 0) {
        flags.minus = true
        flags.zero = false
      }
      this.#afterIndex = false
    } else {
      flags.width = this.#digits()
      if (this.#afterIndex && flags.width !== undefined) this.#goodIndex = false
    }
    if (this.#peek() === '.') trouble += this.#precision(flags)
    if (!this.#afterIndex) this.#index()
    return trouble + this.#operand(flags)
  }

  #precision(flags: Flags): string {
    this.#at++
    if (this.#afterIndex) this.#goodIndex = false
    this.#index()
    if (this.#peek() !== '*') {
      flags.precision = this.#digits() ?? 0
      return ''
    }
    this.#at++
    const precision = this.#number()
    this.#afterIndex = false
    flags.precision = precision !== undefined && precision >= 0 ? precision : undefined
    return flags.precision === undefined ? '%!(BADPREC)' : ''
  }

  #operand(flags: Flags): string {
    if (this.#at >= this.#format.length) return '%!(NOVERB)'
    const { width } = runeAt(this.#format, this.#at)
    const verb = this.#format.slice(this.#at, this.#at + width)
    this.#at += width
    if (verb === '%') return '%'
    if (!this.#goodIndex) return `%!${verb}(BADINDEX)`
    if (this.#next >= this.#args.length) return `%!${verb}(MISSING)`
    if (verb === 'v') {
      flags.syntax = flags.sharp
      flags.sharp = flags.plus = false
    }
    return printValue(this.#budget, this.#args[this.#next++], verb, flags)
  }

  #flags(): Flags {
    const flags: Flags = { ...NO_FLAGS }
    for (; ; this.#at++) {
      const flag = this.#peek()
      if (flag === '#') flags.sharp = true
      else if (flag === '0') flags.zero = !flags.minus
      else if (flag === '+') flags.plus = true
      else if (flag === ' ') flags.space = true
      else if (flag === '-') {
        flags.minus = true
        flags.zero = false
      } else return flags
    }
  }

  #peek(): string | undefined {
    return this.#format[this.#at]
  }

  #digits(): number | undefined {
    const start = this.#at
    while (/[0-9]/.test(this.#peek() ?? '')) this.#at++
    if (this.#at === start) return undefined
    const value = Number(this.#format.slice(start, this.#at))
    return value <= MAX_WIDTH ? value : undefined
  }

  /** `[n]`: which operand comes next. */
  #index(): void {
    if (this.#peek() !== '[') return
    this.#reordered = true
    const close = this.#format.indexOf(']', this.#at)
    if (close < 0 || this.#format.length - this.#at < 3) {
      this.#goodIndex = false
      this.#at++
      return
    }
    const inside = this.#format.slice(this.#at + 1, close)
    const index = /^[0-9]+$/.test(inside) ? Number(inside) - 1 : -1
    this.#at = close + 1
    this.#afterIndex = /^[0-9]+$/.test(inside)
    if (index >= 0 && index < this.#args.length) this.#next = index
    else this.#goodIndex = false
  }

  /** The operand of a `*`. */
  #number(): number | undefined {
    const arg = this.#args[this.#next]
    if (this.#next < this.#args.length) this.#next++
    if (!(arg instanceof Int)) return undefined
    const value = Number(arg.value)
    return Math.abs(value) <= MAX_WIDTH ? value : undefined
  }

  #extra(): string {
    if (this.#reordered || this.#next >= this.#args.length) return ''
    const extra = this.#args
      .slice(this.#next)
      .map((arg) =>
        arg === undefined || arg === null
          ? '<nil>'
          : `${typeName(arg)}=${printValue(this.#budget, arg, 'v')}`,
      )
    return `%!(EXTRA ${extra.join(', ')})`
  }
}
