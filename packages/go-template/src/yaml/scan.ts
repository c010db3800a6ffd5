import { CallError } from '../errors.ts'

/** A YAML text and where in it the reader stands; it reads scalars. Over JavaScript text. */
export class YamlScanner {
  readonly text: string
  at = 0

  constructor(text: string) {
    this.text = text.replace(/\r\n?/g, '\n').replace(/^\ufeff/, '')
  }

  /** Go's messages count a parser's lines from 0 and leave the first out. */
  fail(message: string, isParser = false): never {
    const before = this.text.slice(0, this.at).split('\n').length - 1
    const line = isParser ? Math.max(before, 1) : before === 0 ? 0 : before + 1
    throw new CallError(`yaml: ${line ? `line ${line}: ` : ''}${message}`)
  }

  peek(offset = 0): string {
    return this.text[this.at + offset] ?? ''
  }

  get isAtEnd(): boolean {
    return this.at >= this.text.length
  }

  get column(): number {
    return this.at - (this.text.lastIndexOf('\n', this.at - 1) + 1)
  }

  isBlankAt(offset: number): boolean {
    return /^[ \t\n]?$/.test(this.peek(offset))
  }

  skipSpaces(): void {
    while (this.peek() === ' ' || this.peek() === '\t') this.at++
  }

  /** True when nothing but a comment is left on the line. */
  isLineDone(): boolean {
    this.skipSpaces()
    return this.isAtEnd || this.peek() === '\n' || (this.peek() === '#' && this.#followsBlank())
  }

  #followsBlank(): boolean {
    return this.at === 0 || /[ \t\n]/.test(this.text[this.at - 1] ?? '')
  }

  skipLine(): void {
    const end = this.text.indexOf('\n', this.at)
    this.at = end < 0 ? this.text.length : end + 1
  }

  /** Goes to the next token, over blank lines and comments. A tab may not indent. */
  skipToToken(inFlow = false): void {
    for (;;) {
      if (inFlow) this.skipSpaces()
      while (this.peek() === ' ') this.at++
      if (this.peek() === '\n') this.at++
      else if (this.peek() === '#' && this.#followsBlank()) this.skipLine()
      else break
    }
    if (this.peek() === '\t') this.fail('found character that cannot start any token')
  }

  isDocumentMark(): boolean {
    return this.column === 0 && /^(?:---|\.\.\.)(?:[ \t\n]|$)/.test(this.text.slice(this.at, this.at + 4))
  }

  singleQuoted(): string {
    this.at++
    let out = ''
    for (;;) {
      const character = this.peek()
      if (character === '') this.fail('found unexpected end of stream')
      if (character === "'" && this.peek(1) !== "'") break
      if (character === '\n' || /^[ \t]+\n/.test(this.text.slice(this.at, this.at + 64))) out += this.#fold()
      else {
        out += character
        this.at += character === "'" ? 2 : 1
      }
    }
    this.at++
    return out
  }

  doubleQuoted(): string {
    this.at++
    let out = ''
    for (;;) {
      const character = this.peek()
      if (character === '') this.fail('found unexpected end of stream')
      if (character === '"') break
      if (character === '\\') out += this.#escape()
      else if (character === '\n' || /^[ \t]+\n/.test(this.text.slice(this.at, this.at + 64)))
        out += this.#fold()
      else {
        out += character
        this.at++
      }
    }
    this.at++
    return out
  }

  /** Line breaks inside a scalar: one is a blank, each further one a line break. */
  #fold(): string {
    const [gap = ''] = /^[ \t]*(?:\n[ \t]*)+/.exec(this.text.slice(this.at)) ?? []
    this.at += gap.length
    const breaks = gap.split('\n').length - 1
    return breaks === 1 ? ' ' : '\n'.repeat(breaks - 1)
  }

  #escape(): string {
    const letter = this.peek(1)
    const simple = ESCAPES[letter]
    this.at += 2
    if (simple !== undefined) return simple
    if (letter === '\n') {
      this.skipSpaces()
      return ''
    }
    const length = { x: 2, u: 4, U: 8 }[letter]
    if (length === undefined) this.fail('found unknown escape character')
    const digits = this.text.slice(this.at, this.at + length)
    const code = Number.parseInt(digits, 16)
    if (!/^[0-9A-Fa-f]+$/.test(digits) || digits.length < length || code > 0x10ffff) {
      this.fail('did not find expected hexdecimal number')
    }
    this.at += length
    return String.fromCodePoint(code)
  }

  /** A plain scalar; its lines after the first stand deeper than `indent`. */
  plain(indent: number, inFlow: boolean): string {
    let out = this.#plainLine(inFlow)
    for (;;) {
      const start = this.at
      const [gap = ''] = /^[ \t]*(?:\n[ \t]*)+/.exec(this.text.slice(this.at)) ?? []
      this.at += gap.length
      const next = this.peek()
      const ends = gap === '' || next === '' || next === '#' || this.isDocumentMark()
      const endsFlow = inFlow && (/[,[\]{}]/.test(next) || (next === ':' && this.isBlankAt(1)))
      if (ends || endsFlow || (!inFlow && this.column <= indent)) {
        this.at = start
        return out
      }
      const breaks = gap.split('\n').length - 1
      out += (breaks === 1 ? ' ' : '\n'.repeat(breaks - 1)) + this.#plainLine(inFlow)
      if (!inFlow && this.peek() === ':') this.fail('mapping values are not allowed in this context')
    }
  }

  #plainLine(inFlow: boolean): string {
    const start = this.at
    for (; !this.isAtEnd && this.peek() !== '\n'; this.at++) {
      const character = this.peek()
      if (character === ':' && (this.isBlankAt(1) || (inFlow && /[,[\]{}]/.test(this.peek(1))))) break
      if (character === '#' && this.at > start && /[ \t]/.test(this.peek(-1))) break
      if (inFlow && /[,[\]{}]/.test(character)) break
    }
    const line = this.text.slice(start, this.at).trimEnd()
    this.at = start + line.length
    return line
  }

  /** `|` and `>`: lines deeper than `indent`, kept or folded. */
  block(indent: number): string {
    const [header = '', style, hints = ''] =
      /^([|>])([-+0-9]*)/.exec(this.text.slice(this.at, this.at + 8)) ?? []
    this.at += header.length
    if (!this.isLineDone()) this.fail('did not find expected comment or line break')
    this.skipLine()
    const digit = /[1-9]/.exec(hints)?.[0]
    const lines = this.#blockLines(
      indent,
      digit === undefined ? undefined : Math.max(indent, 0) + Number(digit),
    )
    const body = style === '|' ? lines.join('\n') : foldLines(lines)
    const kept = body.replace(/\n*$/, '')
    if (hints.includes('-')) return kept
    if (hints.includes('+')) return lines.length ? `${body}\n` : ''
    return kept && `${kept}\n`
  }

  #blockLines(indent: number, fixed: number | undefined): string[] {
    const lines: string[] = []
    let depth = fixed
    while (!this.isAtEnd) {
      const end = this.text.indexOf('\n', this.at)
      const line = this.text.slice(this.at, end < 0 ? undefined : end)
      const column = line.search(/[^ ]/)
      const isBlank = column < 0
      if (!isBlank && (column <= indent || this.isDocumentMark())) break
      if (!isBlank) depth ??= column
      if (!isBlank && column < (depth ?? 0)) break
      lines.push(line.slice(depth ?? line.length))
      this.skipLine()
    }
    return lines
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  '0': '\0',
  a: '\x07',
  b: '\b',
  t: '\t',
  '\t': '\t',
  n: '\n',
  v: '\v',
  f: '\f',
  r: '\r',
  e: '\x1b',
  ' ': ' ',
  '"': '"',
  '/': '/',
  '\\': '\\',
  N: '\x85',
  _: '\xa0',
  L: '\u2028',
  P: '\u2029',
}

/** Folds lines that are not indented further; blank lines stay line breaks. */
function foldLines(lines: string[]): string {
  let out = ''
  for (const [i, line] of lines.entries()) {
    const previous = lines[i - 1]
    const joins = previous !== undefined && previous !== '' && line !== '' && !/^[ \t]/.test(previous + line)
    const isKept = /^[ \t]/.test(line) || /^[ \t]/.test(previous ?? '')
    if (i === 0) out = line
    else if (joins) out += ` ${line}`
    else if (previous === '' && line !== '' && !isKept && out.trim() !== '') out += line
    else out += `\n${line}`
  }
  return out
}
