import { encodeText } from '../values/bytes.ts'
import { formatFloat } from '../values/float-format.ts'
import type { Value } from '../values/values.ts'
import { resolveScalar } from './resolve.ts'

/** A scalar with the text it was read from, which is what it is as a key. */
export interface YamlNode {
  value: Value
  key: string
}

export const textNode = (text: string): YamlNode => ({ value: encodeText(text), key: encodeText(text) })

export function plainNode(text: string): YamlNode {
  const resolved = text === '<<' ? text : resolveScalar(text)
  if (typeof resolved === 'string') return textNode(resolved)
  if (typeof resolved === 'number') return { value: resolved, key: formatNumber(resolved) }
  if (resolved === null || typeof resolved === 'boolean') return { value: resolved, key: String(resolved) }
  return textNode(resolved.timestamp)
}

const formatNumber = (value: number): string =>
  Number.isSafeInteger(value) ? String(value) : formatFloat(value, 'g', -1)
