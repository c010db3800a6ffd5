import type { Budget } from '../budget.ts'
import { runeAt } from '../values/bytes.ts'
import { CallError } from '../errors.ts'
import { fn, type Functions, metered } from '../functions/functions.ts'
import { canBackquote, quote } from '../values/quote.ts'
import { type Match, Regex } from '../regex/match.ts'
import { strings } from '../values/values.ts'

type Compile = (budget: Budget, pattern: string) => Regex

const compile: Compile = (budget, pattern) => new Regex(budget, pattern)

/** Go's `regexp.MustCompile`, which names the pattern when it refuses it. */
const mustCompile: Compile = (budget, pattern) => {
  try {
    return compile(budget, pattern)
  } catch (error) {
    if (!(error instanceof CallError)) throw error
    const shown = canBackquote(pattern) ? `\`${pattern}\`` : quote(pattern)
    throw new CallError(`regexp: Compile(${shown}): ${error.message}`, { cause: error })
  }
}

const piece = (text: string, match: Match, group: number): string => {
  const start = match[2 * group] ?? -1
  return start < 0 ? '' : text.slice(start, match[2 * group + 1])
}

const matches = (how: Compile) =>
  metered(['string', 'string'], (budget, pattern, text) => how(budget, pattern).find(text) !== undefined)

const finds = (how: Compile) =>
  metered(['string', 'string'], (budget, pattern, text) =>
    piece(text, how(budget, pattern).find(text) ?? [], 0),
  )

const findsAll = (how: Compile) =>
  metered(['string', 'string', 'int'], (budget, pattern, text, count) => {
    const found = how(budget, pattern).findAll(text, count < 0 ? Number.POSITIVE_INFINITY : count)
    return strings(found.map((match) => piece(text, match, 0)))
  })

const replaces = (how: Compile, expands: boolean) =>
  metered(['string', 'string', 'string'], (budget, pattern, text, replacement) => {
    const regex = how(budget, pattern)
    const literal = () => replacement
    return replaceAll(
      budget,
      regex,
      text,
      expands ? (match) => expand(regex, replacement, text, match) : literal,
    )
  })

function replaceAll(budget: Budget, regex: Regex, text: string, replace: (match: Match) => string): string {
  let [out, lastEnd, position] = ['', 0, 0]
  while (position <= text.length) {
    const match = regex.find(text, position)
    if (!match) break
    const [start = 0, end = 0] = match
    out += text.slice(lastEnd, start)
    // An empty match right after another match is not replaced.
    if (end > lastEnd || start === 0) out += replace(match)
    budget.text(out.length - lastEnd + 1)
    lastEnd = end
    position = Math.max(position + Math.max(runeAt(text, position).width, 1), end)
  }
  return out + text.slice(lastEnd)
}

/** `$1`, `${1}` and `${name}` stand for groups, `$$` for a dollar. A name takes all the letters it can. */
function expand(regex: Regex, replacement: string, text: string, match: Match): string {
  return replacement.replace(/\$(?:\$|([A-Za-z0-9_]+)|\{([A-Za-z0-9_]+)\})/g, (all, bare, braced) => {
    const name = (bare ?? braced) as string | undefined
    if (name === undefined) return '$'
    const group = /^[0-9]+$/.test(name) ? Number(name) : regex.names.indexOf(name)
    return group >= 0 && all !== '' ? piece(text, match, group) : ''
  })
}

const splits = (how: Compile) =>
  metered(['string', 'string', 'int'], (budget, pattern, text, count) => {
    if (count === 0) return strings([])
    const regex = how(budget, pattern)
    if (pattern !== '' && text === '') return strings([''])
    const parts: string[] = []
    let [begin, end] = [0, 0]
    for (const [from = 0, to = 0] of regex.findAll(text, count < 0 ? Number.POSITIVE_INFINITY : count)) {
      if (count > 0 && parts.length === count - 1) break
      end = from
      if (to !== 0) parts.push(text.slice(begin, end))
      begin = to
    }
    if (end !== text.length) parts.push(text.slice(begin))
    return strings(parts)
  })

export const REGEX_FUNCTIONS: Functions = {
  regexMatch: metered(['string', 'string'], (budget, pattern, text) => {
    try {
      return compile(budget, pattern).find(text) !== undefined
    } catch (error) {
      if (error instanceof CallError) return false
      throw error
    }
  }),
  mustRegexMatch: matches(compile),
  regexFind: finds(mustCompile),
  mustRegexFind: finds(compile),
  regexFindAll: findsAll(mustCompile),
  mustRegexFindAll: findsAll(compile),
  regexReplaceAll: replaces(mustCompile, true),
  mustRegexReplaceAll: replaces(compile, true),
  regexReplaceAllLiteral: replaces(mustCompile, false),
  mustRegexReplaceAllLiteral: replaces(compile, false),
  regexSplit: splits(mustCompile),
  mustRegexSplit: splits(compile),
  regexQuoteMeta: fn(['string'], (text) => text.replace(/[\\.+*?()|[\]{}^$]/g, '\\$&')),
}
