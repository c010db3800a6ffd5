import { decodeText } from '../values/bytes.ts'
import { TemplateError } from '../errors.ts'
import { lex } from './lexer.ts'
import { placeOf } from './place.ts'
import type { Token, TokenKind } from './tokens.ts'

/** How deep blocks and parentheses may nest: the parser and the evaluator recurse. */
const MAX_NESTING = 300

/** The tokens of a template and where among them the parser stands. */
export class TokenCursor {
  readonly #text: string
  readonly #name: string
  readonly #tokens: Token[]
  #at = 0
  #nesting = 0

  constructor(text: string, name: string) {
    this.#text = text
    this.#name = name
    this.#tokens = lex(text)
  }

  get at(): number {
    return this.#at
  }

  backTo(at: number): void {
    this.#at = at
  }

  backUp(): void {
    this.#at--
  }

  peek(): Token {
    return this.#tokens[Math.min(this.#at, this.#tokens.length - 1)] as Token
  }

  next(): Token {
    const token = this.peek()
    this.#at++
    return token
  }

  peekNonSpace(): Token {
    while (this.peek().kind === 'space') this.#at++
    return this.peek()
  }

  nextNonSpace(): Token {
    this.peekNonSpace()
    return this.next()
  }

  /** Without a position, the problem is with the token last read. */
  fail(message: string, position = this.#tokens[Math.max(this.#at - 1, 0)]?.position ?? 0): never {
    const { line, column } = placeOf(this.#text, position)
    const text = decodeText(`template: ${this.#name}:${line}: ${message}`)
    throw new TemplateError(text, { code: 'parse', line, column })
  }

  unexpected(token: Token, context: string): never {
    if (token.kind === 'error') this.fail(token.value, token.position)
    this.fail(`unexpected ${tokenText(token)} in ${context}`, token.position)
  }

  expect(kind: TokenKind, context: string): Token {
    const token = this.nextNonSpace()
    return token.kind === kind ? token : this.unexpected(token, context)
  }

  nested<T>(parse: () => T): T {
    if (++this.#nesting > MAX_NESTING) this.fail(`nested deeper than ${MAX_NESTING}`)
    const result = parse()
    this.#nesting--
    return result
  }
}

export const isKeyword = (token: Token, word: string): boolean =>
  token.kind === 'keyword' && token.value === word

function tokenText(token: Token): string {
  if (token.kind === 'eof') return 'EOF'
  if (token.kind === 'keyword' || token.kind === 'dot') return `<${token.value}>`
  if (token.value.length > 10) return `${JSON.stringify(token.value.slice(0, 10))}...`
  return JSON.stringify(token.value)
}
