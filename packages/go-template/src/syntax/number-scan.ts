import { runeAt } from '../values/bytes.ts'
import { isAlphaNumeric } from './tokens.ts'

const DECIMAL = '0123456789_'
const HEXADECIMAL = '0123456789abcdefABCDEF_'

/** Go's literals, loosely: where one that begins at `start` ends. A letter or digit right after it spoils it. */
export function scanNumber(input: string, start: number): { end: number; isNumber: boolean } {
  let at = start
  const accept = (characters: string): boolean => {
    const character = input[at]
    if (character === undefined || !characters.includes(character)) return false
    at++
    return true
  }
  const acceptRun = (characters: string): void => {
    while (accept(characters));
  }
  accept('+-')
  let digits = DECIMAL
  if (accept('0')) {
    if (accept('xX')) digits = HEXADECIMAL
    else if (accept('oO')) digits = '01234567_'
    else if (accept('bB')) digits = '01_'
  }
  acceptRun(digits)
  if (accept('.')) acceptRun(digits)
  const exponent = digits === DECIMAL ? 'eE' : digits === HEXADECIMAL ? 'pP' : ''
  if (exponent && accept(exponent)) {
    accept('+-')
    acceptRun(DECIMAL)
  }
  accept('i')
  const { rune, width } = runeAt(input, at)
  return width > 0 && isAlphaNumeric(rune)
    ? { end: at + width, isNumber: false }
    : { end: at, isNumber: true }
}
