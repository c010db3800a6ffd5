import { folding, single } from './class.ts'
import { PatternCursor } from './cursor.ts'
import { escapedClass, escapedRune, parseClass } from './parse-class.ts'
import type { Assertion, ParsedRegex, RegexNode, RuneTest } from './syntax.ts'

const MAX_REPEAT = 1000
const MAX_DEPTH = 250

interface Flags {
  folds: boolean
  multiline: boolean
  dotAll: boolean
  ungreedy: boolean
}

/** Parses Go's (RE2's) syntax from a byte string. Throws a CallError in Go's words. */
export function parseRegex(pattern: string): ParsedRegex {
  return new RegexParser(pattern).run()
}

class RegexParser extends PatternCursor {
  readonly #names = ['']
  #depth = 0
  #flags: Flags = { folds: false, multiline: false, dotAll: false, ungreedy: false }

  run(): ParsedRegex {
    const node = this.#choice()
    if (this.at < this.pattern.length) this.fail('unexpected )', this.pattern)
    return { node, names: this.#names }
  }

  #choice(): RegexNode {
    if (++this.#depth > MAX_DEPTH) this.fail('expression nests too deeply', this.pattern)
    const nodes = [this.#sequence()]
    while (this.eat('|')) nodes.push(this.#sequence())
    this.#depth--
    return nodes.length === 1 ? (nodes[0] as RegexNode) : { kind: 'choice', nodes }
  }

  #sequence(): RegexNode {
    const nodes: RegexNode[] = []
    let repeatStart: number | undefined
    for (;;) {
      const next = this.peek()
      if (next === undefined || next === '|' || next === ')') return { kind: 'sequence', nodes }
      const start = this.at
      const bounds = this.#bounds()
      if (!bounds) {
        nodes.push(this.#atom())
        repeatStart = undefined
        continue
      }
      const operator = this.pattern.slice(start, this.at)
      const node = nodes.pop()
      if (!node) return this.fail('missing argument to repetition operator', operator)
      const lazy = this.eat('?')
      if (repeatStart !== undefined) {
        this.fail('invalid nested repetition operator', this.pattern.slice(repeatStart, this.at))
      }
      repeatStart = start
      nodes.push({ kind: 'repeat', node, ...bounds, greedy: lazy === this.#flags.ungreedy })
    }
  }

  /** A repetition, if one stands here. */
  #bounds(): { min: number; max: number } | undefined {
    if (this.eat('*')) return { min: 0, max: Number.POSITIVE_INFINITY }
    if (this.eat('+')) return { min: 1, max: Number.POSITIVE_INFINITY }
    if (this.eat('?')) return { min: 0, max: 1 }
    const [whole, low, comma, high] =
      /^\{([0-9]{1,9})(,?)([0-9]{0,9})\}/.exec(this.pattern.slice(this.at, this.at + 24)) ?? []
    if (whole === undefined || (comma === '' && high !== '')) return undefined
    const min = Number(low)
    const max = comma === '' ? min : high === '' ? Number.POSITIVE_INFINITY : Number(high)
    if (min > MAX_REPEAT || (max > MAX_REPEAT && Number.isFinite(max)) || max < min) {
      this.fail('invalid repeat count', whole)
    }
    this.at += whole.length
    return { min, max }
  }

  #atom(): RegexNode {
    if (this.eat('(')) return this.#group()
    if (this.eat('[')) return this.#test(parseClass(this, this.#flags.folds))
    if (this.eat('.')) return { kind: 'rune', test: this.#flags.dotAll ? () => true : (rune) => rune !== 10 }
    if (this.eat('^')) return assert(this.#flags.multiline ? 'beginLine' : 'beginText')
    if (this.eat('$')) return assert(this.#flags.multiline ? 'endLine' : 'endText')
    if (this.peek() === '\\') return this.#escape()
    return this.#test(single(this.rune()))
  }

  #test(test: RuneTest): RegexNode {
    return { kind: 'rune', test: this.#flags.folds ? folding(test) : test }
  }

  // ---- groups

  #group(): RegexNode {
    const outer = this.#flags
    let index: number | undefined
    if (!this.eat('?')) index = this.#names.push('') - 1
    else if (this.eat('P<')) index = this.#names.push(this.#groupName()) - 1
    else if (this.#groupFlags()) return { kind: 'empty' }
    const node = this.#choice()
    if (!this.eat(')')) this.fail('missing closing )', this.pattern)
    this.#flags = outer
    return index === undefined ? node : { kind: 'capture', index, node }
  }

  #groupName(): string {
    const end = this.pattern.indexOf('>', this.at)
    const name = end < 0 ? '' : this.pattern.slice(this.at, end)
    if (!/^[A-Za-z0-9_]+$/.test(name)) {
      this.fail('invalid named capture', this.pattern.slice(this.at - 4, end < 0 ? undefined : end + 1))
    }
    if (this.#names.includes(name)) this.fail('duplicate capture group name', name)
    this.at = end + 1
    return name
  }

  /** `(?i)` changes the flags of what follows (true); `(?i:` begins a group. */
  #groupFlags(): boolean {
    const start = this.at - 2
    const flags = { ...this.#flags }
    let [on, seen] = [true, false]
    for (;;) {
      const letter = this.peek()
      this.at++
      if (letter === 'i') flags.folds = on
      else if (letter === 'm') flags.multiline = on
      else if (letter === 's') flags.dotAll = on
      else if (letter === 'U') flags.ungreedy = on
      else if (letter === '-' && on) {
        on = false
        seen = false
        continue
      } else if ((letter === ':' || letter === ')') && (on || seen)) {
        this.#flags = flags
        return letter === ')'
      } else if (letter === undefined) this.fail('missing closing )', this.pattern)
      else this.fail('invalid or unsupported Perl syntax', this.pattern.slice(start, this.at))
      seen = true
    }
  }

  // ---- escapes

  #escape(): RegexNode {
    const assertions: Readonly<Record<string, Assertion>> = {
      A: 'beginText',
      z: 'endText',
      b: 'boundary',
      B: 'noBoundary',
    }
    const letter = this.pattern[this.at + 1] ?? ''
    const assertion = assertions[letter]
    if (assertion) {
      this.at += 2
      return assert(assertion)
    }
    if (letter === 'Q') return this.#quoted()
    return this.#test(escapedClass(this) ?? single(escapedRune(this)))
  }

  #quoted(): RegexNode {
    const end = this.pattern.indexOf('\\E', this.at + 2)
    const stop = end < 0 ? this.pattern.length : end
    this.at += 2
    const nodes: RegexNode[] = []
    while (this.at < stop) nodes.push(this.#test(single(this.rune())))
    if (end >= 0) this.at += 2
    return { kind: 'sequence', nodes }
  }
}

const assert = (assertion: Assertion): RegexNode => ({ kind: 'assert', assertion })
