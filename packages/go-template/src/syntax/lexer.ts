import { decodeText, encodeRune, runeAt } from '../values/bytes.ts'
import { isPrintable } from '../values/unicode.ts'
import { scanNumber } from './number-scan.ts'
import { isAlphaNumeric, KEYWORDS, type Token, type TokenKind } from './tokens.ts'

const EOF = -1
const LEFT = '{{'
const RIGHT = '}}'
/** More than any template needs, and what a parser reads in a second. */
const MAX_TOKENS = 500_000

const isBlank = (character: string | undefined): boolean =>
  character === ' ' || character === '\t' || character === '\r' || character === '\n'

/** Go's `%#U`, as its messages name a character. */
function describeRune(rune: number): string {
  const code = `U+${rune.toString(16).toUpperCase().padStart(4, '0')}`
  return isPrintable(rune) ? `${code} '${encodeRune(rune)}'` : code
}

/** Splits a template (a byte string) into tokens; the last is `eof` or `error`. */
export function lex(input: string): Token[] {
  return new Lexer(input).run()
}

class Lexer {
  readonly #input: string
  readonly #tokens: Token[] = []
  #start = 0
  #at = 0
  #parens = 0

  constructor(input: string) {
    this.#input = input
  }

  run(): Token[] {
    while (this.#text()) {
      while (this.#inAction());
      if (this.#last()?.kind === 'error') break
    }
    return this.#tokens
  }

  #last(): Token | undefined {
    return this.#tokens.at(-1)
  }

  #emit(kind: TokenKind): true {
    this.#tokens.push({ kind, value: this.#input.slice(this.#start, this.#at), position: this.#start })
    this.#start = this.#at
    return true
  }

  #error(message: string): false {
    this.#tokens.push({ kind: 'error', value: message, position: this.#start })
    return false
  }

  /** Reads text and the delimiter after it. True when an action follows, whose tokens come next. */
  #text(): boolean {
    for (;;) {
      const found = this.#input.indexOf(LEFT, this.#at)
      if (found < 0) {
        this.#at = this.#input.length
        if (this.#at > this.#start) this.#emit('text')
        this.#emit('eof')
        return false
      }
      const trims = this.#input[found + 2] === '-' && isBlank(this.#input[found + 3])
      this.#at = found
      if (trims) while (this.#at > this.#start && isBlank(this.#input[this.#at - 1])) this.#at--
      if (this.#at > this.#start) this.#emit('text')
      this.#at = found + 2
      this.#start = found
      const after = trims ? found + 4 : found + 2
      if (!this.#input.startsWith('/*', after)) {
        this.#emit('leftDelim')
        this.#start = this.#at = after
        this.#parens = 0
        return true
      }
      this.#start = this.#at = after
      if (!this.#comment()) return false
    }
  }

  #comment(): boolean {
    const end = this.#input.indexOf('*/', this.#at + 2)
    if (end < 0) return this.#error('unclosed comment')
    this.#at = end + 2
    if (!this.#atRightDelim()) return this.#error('comment ends before closing delimiter')
    this.#skipRightDelim()
    return true
  }

  #trimsRight(at = this.#at): boolean {
    return isBlank(this.#input[at]) && this.#input.startsWith(`-${RIGHT}`, at + 1)
  }

  #atRightDelim(): boolean {
    return this.#trimsRight() || this.#input.startsWith(RIGHT, this.#at)
  }

  #skipRightDelim(): void {
    const trims = this.#trimsRight()
    this.#at += trims ? 4 : 2
    if (trims) while (isBlank(this.#input[this.#at])) this.#at++
    this.#start = this.#at
  }

  #peek(): number {
    return this.#at >= this.#input.length ? EOF : runeAt(this.#input, this.#at).rune
  }

  #next(): number {
    if (this.#at >= this.#input.length) return EOF
    const { rune, width } = runeAt(this.#input, this.#at)
    this.#at += width
    return rune
  }

  /** One token inside an action. False at its end. */
  #inAction(): boolean {
    if (this.#tokens.length >= MAX_TOKENS) return this.#error(`more than ${MAX_TOKENS} tokens`)
    if (this.#atRightDelim()) {
      if (this.#parens > 0) return this.#error('unclosed left paren')
      this.#start = this.#trimsRight() ? this.#at + 2 : this.#at
      this.#tokens.push({ kind: 'rightDelim', value: RIGHT, position: this.#start })
      this.#skipRightDelim()
      return false
    }
    const rune = this.#next()
    if (rune === EOF) return this.#error('unclosed action')
    const character = String.fromCodePoint(rune)
    if (isBlank(character)) return this.#space()
    switch (character) {
      case '=':
        return this.#emit('assign')
      case ':':
        return this.#next() === 0x3d ? this.#emit('declare') : this.#error('expected :=')
      case '|':
        return this.#emit('pipe')
      case '"':
        return this.#quoted('"', 'string', 'unterminated quoted string')
      case "'":
        return this.#quoted("'", 'char', 'unterminated character constant')
      case '`':
        return this.#raw()
      case '$':
        return this.#fieldOrVariable('variable')
      case '(':
        this.#parens++
        return this.#emit('leftParen')
      case ')':
        this.#emit('rightParen')
        return --this.#parens >= 0 || this.#error("unexpected right paren U+0029 ')'")
      default:
        return this.#word(rune, character)
    }
  }

  #word(rune: number, character: string): boolean {
    if (character === '.' && !/[0-9]/.test(this.#input[this.#at] ?? '')) return this.#fieldOrVariable('field')
    if (/[.+\-0-9]/.test(character)) {
      this.#at = this.#start
      return this.#number()
    }
    if (isAlphaNumeric(rune)) return this.#identifier()
    if (rune < 0x80 && isPrintable(rune)) return this.#emit('punctuation')
    return this.#error(`unrecognized character in action: ${describeRune(rune)}`)
  }

  #space(): boolean {
    while (isBlank(this.#input[this.#at])) this.#at++
    // The last blank belongs to a trimming right delimiter.
    if (this.#trimsRight(this.#at - 1)) this.#at--
    return this.#at > this.#start ? this.#emit('space') : true
  }

  #atTerminator(): boolean {
    const character = this.#input[this.#at]
    return character === undefined || isBlank(character) || '.,|:()}'.includes(character)
  }

  #endOfWord(): boolean {
    return this.#atTerminator() || this.#error(`bad character ${describeRune(this.#peek())}`)
  }

  #alphaNumerics(): void {
    while (this.#at < this.#input.length && isAlphaNumeric(this.#peek())) this.#next()
  }

  #identifier(): boolean {
    this.#alphaNumerics()
    if (!this.#endOfWord()) return false
    const word = this.#input.slice(this.#start, this.#at)
    if (KEYWORDS.has(word)) return this.#emit('keyword')
    return this.#emit(word === 'true' || word === 'false' ? 'bool' : 'identifier')
  }

  #fieldOrVariable(kind: 'field' | 'variable'): boolean {
    if (this.#atTerminator()) return this.#emit(kind === 'field' ? 'dot' : 'variable')
    this.#alphaNumerics()
    return this.#endOfWord() && this.#emit(kind)
  }

  #quoted(quote: string, kind: TokenKind, unterminated: string): boolean {
    for (;;) {
      let character = this.#input[this.#at++]
      if (character === quote) return this.#emit(kind)
      if (character === '\\') {
        character = this.#input[this.#at++]
        if (character !== undefined && character !== '\n') continue
      }
      if (character === undefined || character === '\n') return this.#error(unterminated)
    }
  }

  #raw(): boolean {
    const end = this.#input.indexOf('`', this.#at)
    if (end < 0) return this.#error('unterminated raw quoted string')
    this.#at = end + 1
    return this.#emit('rawString')
  }

  #number(): boolean {
    const bad = () => {
      const text = decodeText(this.#input.slice(this.#start, this.#at))
      return this.#error(`bad number syntax: "${text}"`)
    }
    if (!this.#scanNumber()) return bad()
    const sign = this.#input[this.#at]
    if (sign !== '+' && sign !== '-') return this.#emit('number')
    if (!this.#scanNumber() || this.#input[this.#at - 1] !== 'i') return bad()
    return this.#emit('complex')
  }

  #scanNumber(): boolean {
    const { end, isNumber } = scanNumber(this.#input, this.#at)
    this.#at = end
    return isNumber
  }
}
