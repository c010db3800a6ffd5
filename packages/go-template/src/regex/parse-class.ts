import { encodeRune } from '../values/bytes.ts'
import { anyOf, folding, NAMED_CLASSES, not, PERL_CLASSES, range, single, unicodeClass } from './class.ts'
import type { PatternCursor } from './cursor.ts'
import type { RuneTest } from './syntax.ts'

/** `\d`, `\pL` and the like, if one stands here. */
export function escapedClass(cursor: PatternCursor): RuneTest | undefined {
  const letter = cursor.pattern[cursor.at + 1] ?? ''
  const perl = PERL_CLASSES[letter]
  if (cursor.peek() !== '\\') return undefined
  if (perl) {
    cursor.at += 2
    return perl
  }
  if (letter !== 'p' && letter !== 'P') return undefined
  const start = cursor.at
  cursor.at += 2
  let name = encodeRune(cursor.at < cursor.pattern.length ? cursor.rune() : 0)
  if (name === '{') {
    const end = cursor.pattern.indexOf('}', cursor.at)
    if (end < 0) cursor.fail('invalid character class range', cursor.pattern.slice(start))
    name = cursor.pattern.slice(cursor.at, end)
    cursor.at = end + 1
  }
  const inverted = name.startsWith('^') !== (letter === 'P')
  const test = unicodeClass(name.replace(/^\^/, ''))
  if (!test) return cursor.fail('invalid character class range', cursor.pattern.slice(start, cursor.at))
  return inverted ? not(test) : test
}

export function escapedRune(cursor: PatternCursor): number {
  const start = cursor.at
  cursor.at++
  if (cursor.at >= cursor.pattern.length) cursor.fail('trailing backslash at end of expression', '')
  const simple = { a: 7, f: 12, n: 10, r: 13, t: 9, v: 11 }[cursor.peek() ?? '']
  if (simple !== undefined) {
    cursor.at++
    return simple
  }
  const rest = cursor.pattern.slice(cursor.at, cursor.at + 12)
  const [code] = /^(?:0[0-7]{0,2}|[1-7][0-7]{1,2}|x[0-9A-Fa-f]{2}|x\{[0-9A-Fa-f]{1,8}\})/.exec(rest) ?? []
  if (code !== undefined) {
    cursor.at += code.length
    const hex = /^x\{?([0-9A-Fa-f]+)/.exec(code)?.[1]
    const rune = hex === undefined ? Number.parseInt(code, 8) : Number.parseInt(hex, 16)
    if (rune <= 0x10ffff) return rune
  }
  const rune = code === undefined ? cursor.rune() : 0
  if (rune < 0x80 && /[!-/:-@[-`{-~]/.test(String.fromCharCode(rune))) return rune
  return cursor.fail('invalid escape sequence', cursor.pattern.slice(start, cursor.at))
}

/** A class after its bracket. */
export function parseClass(cursor: PatternCursor, folds: boolean): RuneTest {
  const start = cursor.at - 1
  const inverted = cursor.eat('^')
  const tests: RuneTest[] = []
  for (let isFirst = true; isFirst || cursor.peek() !== ']'; isFirst = false) {
    if (cursor.at >= cursor.pattern.length) cursor.fail('missing closing ]', cursor.pattern.slice(start))
    tests.push(namedClass(cursor) ?? escapedClass(cursor) ?? classRange(cursor, start))
  }
  cursor.at++
  const test = folds ? folding(anyOf(tests)) : anyOf(tests)
  return inverted ? not(test) : test
}

function namedClass(cursor: PatternCursor): RuneTest | undefined {
  if (!cursor.pattern.startsWith('[:', cursor.at)) return undefined
  const end = cursor.pattern.indexOf(':]', cursor.at + 2)
  if (end < 0) return undefined
  const name = cursor.pattern.slice(cursor.at + 2, end)
  const test = NAMED_CLASSES[name.replace(/^\^/, '')]
  if (!test) return cursor.fail('invalid character class range', cursor.pattern.slice(cursor.at, end + 2))
  cursor.at = end + 2
  return name.startsWith('^') ? not(test) : test
}

function classRange(cursor: PatternCursor, classStart: number): RuneTest {
  const start = cursor.at
  const low = classRune(cursor, classStart)
  const isRange = cursor.peek() === '-' && cursor.pattern[cursor.at + 1] !== ']'
  if (!isRange || cursor.at + 1 >= cursor.pattern.length) return single(low)
  cursor.at++
  const high = classRune(cursor, classStart)
  if (high < low) cursor.fail('invalid character class range', cursor.pattern.slice(start, cursor.at))
  return range(low, high)
}

function classRune(cursor: PatternCursor, classStart: number): number {
  if (cursor.at >= cursor.pattern.length) cursor.fail('missing closing ]', cursor.pattern.slice(classStart))
  return cursor.peek() === '\\' ? escapedRune(cursor) : cursor.rune()
}
