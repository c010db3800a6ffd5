import { runeCount } from '../values/bytes.ts'

export interface Place {
  line: number
  column: number
  /** As Go counts it: bytes, from 0. */
  byteColumn: number
}

/** Where a byte offset of a template is, for people. */
export function placeOf(text: string, position: number): Place {
  const lineStart = text.lastIndexOf('\n', position - 1) + 1
  const start = position === 0 ? 0 : lineStart
  let line = 1
  for (let at = text.indexOf('\n'); at >= 0 && at < position; at = text.indexOf('\n', at + 1)) line++
  return { line, column: runeCount(text.slice(start, position)) + 1, byteColumn: position - start }
}
