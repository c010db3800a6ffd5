import { resolveScalar } from './resolve.ts'

/** How yaml.v2 writes a text: plain if it reads back as the same text, else quoted. Over JavaScript text. */

const BEST_WIDTH = 80
const BASE_60 = /^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$/
const PRINTABLE = /^[\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]*$/u
const STARTS_SPECIAL = /^[#,[\]{}&*!|>'"%@`]/

export interface ScalarPlace {
  indent: number
  /** Where the text begins, for breaking long lines. */
  column: number
  isKey: boolean
}

export function plainOrQuoted(text: string, place: ScalarPlace): string {
  const resolvesToText =
    text === '<<' || text === '=' || (resolveScalar(text) === text && !BASE_60.test(text))
  if (!resolvesToText || text === '' || text.includes('\n') || !PRINTABLE.test(text)) {
    return doubleQuoted(text)
  }
  if (isPlainAllowed(text)) return folded(text, place)
  return `'${folded(text.replaceAll("'", "''"), { ...place, column: place.column + 1 })}'`
}

function isPlainAllowed(text: string): boolean {
  if (/^ | $|^(?:---|\.\.\.)/.test(text) || STARTS_SPECIAL.test(text)) return false
  if (/^[?:-](?:[ \t]|$)/.test(text)) return false
  return !/:(?:[ \t]|$)|[ \t]#/.test(text)
}

/** Breaks a long line at single blanks. */
function folded(text: string, { indent, column, isKey }: ScalarPlace): string {
  if (isKey || column + text.length <= BEST_WIDTH) return text
  const pad = ' '.repeat(Math.max(indent, 2))
  let [out, at] = ['', column]
  const characters = [...text]
  for (const [i, character] of characters.entries()) {
    const isInside = i > 0 && i < characters.length - 1
    const isLone = characters[i + 1] !== ' ' && characters[i - 1] !== ' '
    if (character === ' ' && isInside && isLone && at > BEST_WIDTH) {
      out += `\n${pad}`
      at = pad.length
    } else {
      out += character
      at++
    }
  }
  return out
}

const ESCAPES: Readonly<Record<string, string>> = {
  '\0': '\\0',
  '\x07': '\\a',
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\v': '\\v',
  '\f': '\\f',
  '\r': '\\r',
  '\x1b': '\\e',
  '"': '\\"',
  '\\': '\\\\',
  '\x85': '\\N',
  '\ufeff': '\\uFEFF',
  '\u2028': '\\L',
  '\u2029': '\\P',
}

function doubleQuoted(text: string): string {
  const escaped = [...text].map((character) => {
    const simple = ESCAPES[character]
    if (simple) return simple
    if (PRINTABLE.test(character)) return character
    const code = character.codePointAt(0) ?? 0
    const [letter, length] = code < 0x100 ? ['x', 2] : code < 0x10000 ? ['u', 4] : ['U', 8]
    return `\\${letter}${code
      .toString(16)
      .toUpperCase()
      .padStart(length as number, '0')}`
  })
  return `"${escaped.join('')}"`
}

/** A block of lines after `|`; undefined where such a block could not give the text back. */
export function literalStyle(text: string, indent: number): string | undefined {
  if (!PRINTABLE.test(text) || / \n| $/.test(text)) return undefined
  const hint = /^[ \n]/.test(text) ? '2' : ''
  const chomp = !text.endsWith('\n') ? '-' : text.endsWith('\n\n') || text === '\n' ? '+' : ''
  const pad = ' '.repeat(indent)
  const lines = text.replace(/\n$/, '').split('\n')
  return `|${hint}${chomp}\n${lines.map((line) => (line ? pad + line : '')).join('\n')}`
}
