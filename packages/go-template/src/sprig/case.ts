import { encodeRune, RUNE_ERROR, runesOf } from '../values/bytes.ts'
import {
  isLetter,
  isLower,
  isNumber,
  isPunctuation,
  isSpace,
  isUpper,
  toLower,
  toUpper,
} from '../values/unicode.ts'

const encode = (runes: readonly number[]): string => runes.map(encodeRune).join('')

/** Go's `strings.Title`: an apostrophe separates words too. */
export function titleCase(text: string): string {
  let afterSeparator = true
  return encode(
    runesOf(text).map((rune) => {
      const changed = afterSeparator ? toUpper(rune) : rune
      afterSeparator = isSeparator(rune)
      return changed
    }),
  )
}

function isSeparator(rune: number): boolean {
  if (rune === 0x5f || isLetter(rune) || isNumber(rune)) return false
  return rune < 0x80 || isSpace(rune)
}

export function untitleCase(text: string): string {
  let afterSpace = true
  return encode(
    runesOf(text).map((rune) => {
      const changed = afterSpace ? toLower(rune) : rune
      afterSpace = isSpace(rune)
      return changed
    }),
  )
}

export function swapCase(text: string): string {
  return encode(
    runesOf(text).map((rune) => (isUpper(rune) ? toLower(rune) : isLower(rune) ? toUpper(rune) : rune)),
  )
}

const isConnector = (rune: number): boolean => rune === 0x2d || rune === 0x5f || isSpace(rune)

export function camelCase(text: string): string {
  const runes = runesOf(text)
  const start = runes.findIndex((rune) => !isConnector(rune))
  if (start < 0) return text
  const out = runes.slice(0, start)
  let last = toUpper(runes[start] as number)
  for (const rune of runes.slice(start + 1)) {
    const afterConnector = isConnector(last)
    if (!afterConnector || isConnector(rune)) out.push(last)
    if (afterConnector) last = isConnector(rune) ? rune : toUpper(rune)
    else last = toLower(rune)
  }
  return encode([...out, last])
}

export const snakeCase = (text: string): string => new WordSplitter(text, 0x5f).run()
export const kebabCase = (text: string): string => new WordSplitter(text, 0x2d).run()

type WordKind = 'end' | 'number' | 'upper' | 'letters' | 'connector' | 'punctuation' | 'other'

interface Word {
  kind: WordKind
  runes: number[]
}

/** Where the words of `HTTPServer2xx` begin is the rule of the library under Sprig, step by step. */
class WordSplitter {
  readonly #runes: number[]
  readonly #connector: number
  readonly #out: number[] = []
  #at = 0
  #word: Word = { kind: 'end', runes: [] }

  constructor(text: string, connector: number) {
    this.#runes = runesOf(text)
    this.#connector = connector
  }

  run(): string {
    this.#advance()
    while (this.#at < this.#runes.length) {
      const last = this.#word
      if (last.kind !== 'connector') this.#write(last)
      this.#advance()
      if (last.kind === 'number') this.#afterNumber()
      else if (last.kind === 'connector') this.#write(last)
      else if (last.kind !== 'punctuation') this.#afterWord()
    }
    this.#write(this.#word)
    return encode(this.#out)
  }

  #advance(): void {
    this.#word = this.#next()
  }

  #afterNumber(): void {
    while (this.#word.kind === 'letters' || this.#word.kind === 'number') {
      this.#write(this.#word)
      this.#advance()
    }
    this.#connect()
  }

  #afterWord(): void {
    const number = this.#word
    if (number.kind !== 'number') return this.#connect()
    if (this.#at >= this.#runes.length) return
    this.#advance()
    if (this.#word.kind !== 'letters') {
      this.#write(number)
      return this.#connect()
    }
    this.#out.push(this.#connector)
    this.#write(number)
    this.#afterNumber()
  }

  #connect(): void {
    if (!['end', 'connector', 'punctuation'].includes(this.#word.kind)) this.#out.push(this.#connector)
  }

  #write({ kind, runes }: Word): void {
    const changes = kind === 'upper' || kind === 'connector'
    for (const rune of runes) {
      if (!changes) this.#out.push(rune)
      else this.#out.push(isConnector(rune) ? this.#connector : toLower(rune))
    }
  }

  #next(): Word {
    const first = this.#runes[this.#at]
    if (first === undefined || first === RUNE_ERROR) {
      return { kind: 'end', runes: first === undefined ? [] : this.#take(1) }
    }
    if (isConnector(first)) return this.#while('connector', isConnector)
    if (isPunctuation(first)) return this.#while('punctuation', isPunctuation)
    if (isUpper(first)) return this.#capital()
    if (isAlphabet(first)) return this.#while('letters', isLowerAlphabet)
    if (isNumber(first)) return this.#while('number', isNumber)
    return this.#while('other', isOther)
  }

  #take(count: number): number[] {
    this.#at += count
    return this.#runes.slice(this.#at - count, this.#at)
  }

  #run(from: number, matches: (rune: number) => boolean): number {
    let end = from
    while (end < this.#runes.length && matches(this.#runes[end] as number)) end++
    return end
  }

  #while(kind: WordKind, matches: (rune: number) => boolean): Word {
    return { kind, runes: this.#take(this.#run(this.#at + 1, matches) - this.#at) }
  }

  /** `HTTPStatus` is `HTTP` and `Status`. */
  #capital(): Word {
    const capitals = this.#run(this.#at, isUpper)
    const next = this.#runes[capitals]
    if (capitals - this.#at === 1) return this.#while('upper', isLowerAlphabet)
    const shared = next !== undefined && isAlphabet(next) ? 1 : 0
    return { kind: 'upper', runes: this.#take(capitals - shared - this.#at) }
  }
}

function isAlphabet(rune: number): boolean {
  const isCjk = (rune >= 0x3400 && rune <= 0x9fff) || (rune >= 0xf900 && rune <= 0xfaff) || rune >= 0x20000
  return !isCjk && isLetter(rune)
}

const isLowerAlphabet = (rune: number): boolean => isAlphabet(rune) && !isUpper(rune)
const isOther = (rune: number): boolean =>
  !isConnector(rune) && !isAlphabet(rune) && !isNumber(rune) && !isPunctuation(rune)
