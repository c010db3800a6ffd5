import type { Budget } from '../budget.ts'
import { decodeText, encodeText, RUNE_ERROR, runeAt } from './bytes.ts'
import { CallError } from '../errors.ts'
import { Complex, fromData, GoList, GoMap, Int, isObject, type Value } from './values.ts'

export interface JsonStyle {
  /** `<`, `>` and `&` as escapes. */
  escapesHtml: boolean
  indent: string
}

/** Go's `json.Marshal`, as a byte string. Throws a CallError for what JSON cannot say. */
export function toJson(budget: Budget, value: Value, style: JsonStyle): string {
  const text = marshal(budget, value, style, '', 0)
  budget.text(text.length)
  return text
}

function marshal(budget: Budget, value: Value, style: JsonStyle, margin: string, depth: number): string {
  budget.spend(1)
  budget.depth(depth)
  if (typeof value === 'string') return jsonString(value, style.escapesHtml)
  if (isObject(value)) return jsonString(value.text(), style.escapesHtml)
  const inner = margin + style.indent
  const member = (item: Value): string => {
    const text = marshal(budget, item, style, inner, depth + 1)
    budget.text(text.length)
    return text
  }
  if (value instanceof GoList && !value.isNil) {
    return enclosed('[', value.items.map(member), ']', style, margin)
  }
  if (!(value instanceof GoMap) || value.isNil) return jsonScalar(value)
  const colon = style.indent ? ': ' : ':'
  const members = value
    .entries(budget)
    .map(([key, item]) => jsonString(key, style.escapesHtml) + colon + member(item))
  return enclosed('{', members, '}', style, margin)
}

/** What is neither text nor a list nor a map. */
export function jsonScalar(value: Value): string {
  if (typeof value === 'boolean') return String(value)
  if (typeof value === 'number') return jsonNumber(value)
  if (value instanceof Int) return value.value.toString()
  if (value instanceof Complex) throw new CallError('json: unsupported type: complex128')
  return 'null'
}

function enclosed(
  open: string,
  members: string[],
  close: string,
  { indent }: JsonStyle,
  margin: string,
): string {
  if (members.length === 0) return open + close
  if (!indent) return open + members.join(',') + close
  const separator = `\n${margin}${indent}`
  return `${open}${separator}${members.join(`,${separator}`)}\n${margin}${close}`
}

const SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
}

function jsonString(text: string, escapesHtml: boolean): string {
  let out = '"'
  for (let at = 0; at < text.length;) {
    const { rune, width } = runeAt(text, at)
    const raw = text.slice(at, at + width)
    at += width
    const isBad = rune === RUNE_ERROR && width === 1
    const isUnsafe = rune < 0x20 || rune === 0x2028 || rune === 0x2029 || (escapesHtml && '<>&'.includes(raw))
    if (isBad) out += '\\ufffd'
    else out += SHORT[raw] ?? (isUnsafe ? `\\u${rune.toString(16).padStart(4, '0')}` : raw)
  }
  return `${out}"`
}

function jsonNumber(value: number): string {
  if (Number.isNaN(value)) throw new CallError('json: unsupported value: NaN')
  if (!Number.isFinite(value)) throw new CallError(`json: unsupported value: ${value > 0 ? '+' : '-'}Inf`)
  if (Object.is(value, -0)) return '-0'
  // JavaScript and Go agree on when to use an exponent and on how to write it.
  return String(value)
}

/** Go's `json.Unmarshal` into an interface. Throws a CallError with a message like Go's. */
export function fromJson(bytes: string): Value {
  const text = decodeText(bytes)
  try {
    return fromData(JSON.parse(text))
  } catch (error) {
    throw new CallError(jsonProblem(text), { cause: error })
  }
}

function jsonProblem(text: string): string {
  const trimmed = text.trim()
  const first = trimmed[0]
  if (first === undefined || /^[[{"][^\]}]*$/.test(trimmed)) return 'unexpected end of JSON input'
  const bad = /,\s*([\]}])/.exec(trimmed)?.[1] ?? first
  return encodeText(`invalid character '${bad}' looking for beginning of value`)
}
