import { isDigit, isLetter } from '../values/unicode.ts'

export type TokenKind =
  | 'error'
  | 'eof'
  | 'text'
  | 'leftDelim'
  | 'rightDelim'
  | 'space'
  | 'assign'
  | 'declare'
  | 'pipe'
  | 'string'
  | 'rawString'
  | 'char'
  | 'number'
  | 'complex'
  | 'field'
  | 'variable'
  | 'identifier'
  | 'bool'
  | 'dot'
  | 'leftParen'
  | 'rightParen'
  | 'punctuation'
  | 'keyword'

export interface Token {
  kind: TokenKind
  value: string
  position: number
}

export const KEYWORDS = new Set([
  'block',
  'break',
  'continue',
  'define',
  'else',
  'end',
  'if',
  'nil',
  'range',
  'template',
  'with',
])

/** What names are made of. */
export const isAlphaNumeric = (rune: number): boolean => rune === 95 || isLetter(rune) || isDigit(rune)
