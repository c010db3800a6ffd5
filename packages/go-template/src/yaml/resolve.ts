import { parseFloatLiteral, parseIntegerLiteral } from '../syntax/literals.ts'

/** What yaml.v2 (YAML 1.1) takes a plain scalar for. A timestamp stays text but does not resolve to itself. */
export type Resolved = null | boolean | number | string | { timestamp: string }

const WORDS = new Map<string, null | boolean | number>([
  ...wordsFor(true, 'y', 'yes', 'true', 'on'),
  ...wordsFor(false, 'n', 'no', 'false', 'off'),
  ...wordsFor(null, 'null'),
  ['~', null],
  ['', null],
  ...wordsFor(Number.NaN, '.nan'),
  ['.NaN', Number.NaN],
  ...['', '+'].flatMap((sign) => signed(sign, Number.POSITIVE_INFINITY)),
  ...signed('-', Number.NEGATIVE_INFINITY),
])

function wordsFor<T>(value: T, ...words: string[]): [string, T][] {
  return words.flatMap((word) => {
    const capital = word.slice(0, 1).toUpperCase() + word.slice(1)
    return [word, capital, word.toUpperCase()].map((form): [string, T] => [form, value])
  })
}

function signed(sign: string, value: number): [string, number][] {
  return ['.inf', '.Inf', '.INF'].map((word) => [sign + word, value])
}

const STYLE_FLOAT = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/
const TIMESTAMP =
  /^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?)?$/

export function resolveScalar(text: string): Resolved {
  const word = WORDS.get(text)
  if (word !== undefined) return word
  if (!/^[-+.0-9]/.test(text)) return text
  if (text.startsWith('.')) return parseFloatLiteral(text) ?? text
  if (TIMESTAMP.test(text)) return { timestamp: text }
  const plain = text.replaceAll('_', '')
  const integer = parseIntegerLiteral(plain)
  if (integer !== undefined) return Number(integer)
  if (STYLE_FLOAT.test(plain)) return parseFloatLiteral(plain) ?? text
  return text
}
