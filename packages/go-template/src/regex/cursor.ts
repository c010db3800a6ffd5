import { CallError } from '../errors.ts'
import { runeAt } from '../values/bytes.ts'

/** A pattern (a byte string) and where in it the parser stands. */
export class PatternCursor {
  readonly pattern: string
  at = 0

  constructor(pattern: string) {
    this.pattern = pattern
  }

  fail(what: string, text: string): never {
    throw new CallError(`error parsing regexp: ${what}: \`${text}\``)
  }

  peek(): string | undefined {
    return this.pattern[this.at]
  }

  eat(text: string): boolean {
    if (!this.pattern.startsWith(text, this.at)) return false
    this.at += text.length
    return true
  }

  rune(): number {
    const { rune, width } = runeAt(this.pattern, this.at)
    this.at += width
    return rune
  }
}
