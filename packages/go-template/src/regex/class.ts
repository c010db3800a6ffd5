import type { RuneTest } from './syntax.ts'
import { toLower, toUpper } from '../values/unicode.ts'

const between =
  (low: number, high: number): RuneTest =>
  (rune) =>
    rune >= low && rune <= high

export const range = between
export const single =
  (wanted: number): RuneTest =>
  (rune) =>
    rune === wanted
export const not =
  (test: RuneTest): RuneTest =>
  (rune) =>
    !test(rune)

export function anyOf(tests: readonly RuneTest[]): RuneTest {
  return tests.length === 1 ? (tests[0] as RuneTest) : (rune) => tests.some((test) => test(rune))
}

/** Matches in either case. */
export const folding =
  (test: RuneTest): RuneTest =>
  (rune) =>
    test(rune) || test(toLower(rune)) || test(toUpper(rune)) || test(toLower(toUpper(rune)))

const digits = between(48, 57)
const lowers = between(97, 122)
const uppers = between(65, 90)
const letters = anyOf([lowers, uppers])
const word = anyOf([digits, letters, single(95)])
const space = anyOf([9, 10, 12, 13, 32].map(single))
const punctuation = anyOf([between(33, 47), between(58, 64), between(91, 96), between(123, 126)])

export const isWordRune = word

export const PERL_CLASSES: Readonly<Record<string, RuneTest>> = {
  d: digits,
  s: space,
  w: word,
  D: not(digits),
  S: not(space),
  W: not(word),
}

export const NAMED_CLASSES: Readonly<Record<string, RuneTest>> = {
  alnum: anyOf([digits, letters]),
  alpha: letters,
  ascii: between(0, 127),
  blank: anyOf([single(9), single(32)]),
  cntrl: anyOf([between(0, 31), single(127)]),
  digit: digits,
  graph: between(33, 126),
  lower: lowers,
  print: between(32, 126),
  punct: punctuation,
  space: anyOf([space, single(11)]),
  upper: uppers,
  word,
  xdigit: anyOf([digits, between(97, 102), between(65, 70)]),
}

/** `\pL`, `\p{Greek}`: a category or a script; undefined when there is none of that name. */
export function unicodeClass(name: string): RuneTest | undefined {
  if (name === 'Any') return () => true
  if (!/^[A-Za-z_]+$/.test(name)) return undefined
  for (const property of [`General_Category=${name}`, `Script=${name}`]) {
    try {
      const pattern = new RegExp(`^\\p{${property}}$`, 'u')
      return (rune) => pattern.test(String.fromCodePoint(rune))
    } catch {
      // Not of this kind: the next may know the name.
    }
  }
  return undefined
}
