import type { Budget } from '../budget.ts'
import { encodeText } from '../values/bytes.ts'
import { deepCopy } from '../values/deep-copy.ts'
import { GoMap, list, type Value } from '../values/values.ts'
import { plainNode, textNode, type YamlNode } from './node.ts'
import { YamlScanner } from './scan.ts'

interface Properties {
  anchor: string | undefined
  tag: string | undefined
}

/** Reads the YAML that people write: block and flow, anchors, merges; no explicit keys and no own tags. */
export class YamlReader {
  readonly #budget: Budget
  readonly #scan: YamlScanner
  readonly #anchors = new Map<string, Value>()
  #depth = 0

  constructor(budget: Budget, text: string) {
    this.#budget = budget
    this.#scan = new YamlScanner(text)
  }

  document(): Value {
    const scan = this.#scan
    scan.skipToToken()
    while (scan.peek() === '%') {
      scan.skipLine()
      scan.skipToToken()
    }
    if (scan.isDocumentMark() && scan.peek() === '-') scan.at += 3
    const value = this.#block(-1, false)
    scan.skipToToken()
    if (!scan.isAtEnd && !scan.isDocumentMark()) scan.fail('did not find expected <document start>', true)
    return value
  }

  #enter<T>(read: () => T): T {
    this.#budget.spend(1)
    this.#budget.depth(++this.#depth)
    const result = read()
    this.#depth--
    return result
  }

  // ---- blocks

  /** The node after a key, a dash or a document's start. It stands deeper than `indent`. */
  #block(indent: number, isMapValue: boolean): Value {
    return this.#enter(() => {
      const scan = this.#scan
      const properties = this.#properties()
      if (!scan.isLineDone())
        return this.#named(properties, this.#inline(indent, properties.tag, !isMapValue))
      scan.skipToToken()
      const more = this.#properties()
      scan.skipToToken()
      const all = { anchor: properties.anchor ?? more.anchor, tag: properties.tag ?? more.tag }
      const isDeeper = scan.column > indent
      const isListOfMap = isMapValue && scan.column === indent && this.#isDash()
      if (scan.isAtEnd || scan.isDocumentMark() || !(isDeeper || isListOfMap)) {
        return this.#named(all, all.tag === '!!str' ? '' : null)
      }
      return this.#named(all, this.#inline(indent, all.tag, true))
    })
  }

  #named({ anchor }: Properties, value: Value): Value {
    if (anchor !== undefined) this.#anchors.set(anchor, value)
    return value
  }

  #properties(): Properties {
    const scan = this.#scan
    const found: Properties = { anchor: undefined, tag: undefined }
    for (;;) {
      scan.skipSpaces()
      const [whole, mark, name] = /^([&!])([^\s,[\]{}]*)/.exec(scan.text.slice(scan.at, scan.at + 256)) ?? []
      if (whole === undefined) return found
      scan.at += whole.length
      if (mark === '&') found.anchor = name
      else found.tag = whole
    }
  }

  #isDash(): boolean {
    return this.#scan.peek() === '-' && this.#scan.isBlankAt(1)
  }

  /** A node that begins here. Where a key would be out of place, only a list or a scalar may stand. */
  #inline(indent: number, tag: string | undefined, mayBeMap: boolean): Value {
    const scan = this.#scan
    const { column } = scan
    if (scan.peek() === '\t') scan.fail('found character that cannot start any token')
    if (this.#isDash()) {
      if (!mayBeMap) scan.fail('block sequence entries are not allowed in this context')
      return this.#list(column)
    }
    if (scan.peek() === '|' || scan.peek() === '>') return encodeText(scan.block(indent))
    const start = scan.at
    const first = this.#scalarOrFlow(indent, tag, false)
    const isOneLine = !scan.text.slice(start, scan.at).includes('\n')
    const end = scan.at
    scan.skipSpaces()
    if (scan.peek() !== ':' || !scan.isBlankAt(1)) {
      scan.at = end
      if (!scan.isLineDone()) scan.fail('did not find expected key', true)
      return first.value
    }
    if (!mayBeMap || !isOneLine) scan.fail('mapping values are not allowed in this context')
    scan.at = start
    return this.#map(column)
  }

  #list(column: number): Value {
    const scan = this.#scan
    const items: Value[] = []
    while (!scan.isAtEnd && scan.column === column && this.#isDash() && !scan.isDocumentMark()) {
      scan.at++
      items.push(this.#block(column, false))
      scan.skipToToken()
    }
    if (!scan.isAtEnd && scan.column > column) scan.fail("did not find expected '-' indicator", true)
    return list(items)
  }

  #map(column: number): Value {
    const scan = this.#scan
    const map = new GoMap()
    const merges: Value[] = []
    while (!scan.isAtEnd && scan.column === column && !this.#isDash() && !scan.isDocumentMark()) {
      const properties = this.#properties()
      const { key, value } = this.#scalarOrFlow(column, properties.tag, false)
      this.#named(properties, value)
      scan.skipSpaces()
      if (scan.peek() !== ':' || !scan.isBlankAt(1)) scan.fail("could not find expected ':'")
      scan.at++
      const member = this.#block(column, true)
      if (key === '<<') merges.push(member)
      else map.set(key, member)
      scan.skipToToken()
    }
    if (!scan.isAtEnd && scan.column > column) scan.fail('did not find expected key', true)
    return this.#merged(map, merges)
  }

  #merged(map: GoMap, merges: Value[]): GoMap {
    const sources = merges.flatMap((value) => (value instanceof GoMap ? [value] : listItems(value)))
    for (const source of sources) {
      if (!(source instanceof GoMap))
        this.#scan.fail('map merge requires map or sequence of maps as the value')
      for (const [key, value] of source.entries(this.#budget)) if (!map.has(key)) map.set(key, value)
    }
    return map
  }

  // ---- scalars and flow

  #scalarOrFlow(indent: number, tag: string | undefined, inFlow: boolean): YamlNode {
    const scan = this.#scan
    const start = scan.peek()
    if (start === '[') return { value: this.#enter(() => this.#flowList()), key: '' }
    if (start === '{') return { value: this.#enter(() => this.#flowMap()), key: '' }
    if (start === '*') return { value: this.#alias(), key: '' }
    if (start === '"') return textNode(scan.doubleQuoted())
    if (start === "'") return textNode(scan.singleQuoted())
    if (/[@`%|>]/.test(start) || (start === '?' && scan.isBlankAt(1))) {
      scan.fail('found character that cannot start any token')
    }
    const text = scan.plain(indent, inFlow)
    this.#budget.text(text.length)
    return tag === '!!str' ? textNode(text) : plainNode(text)
  }

  #alias(): Value {
    const scan = this.#scan
    const [whole = '*', name = ''] = /^\*([^\s,[\]{}:]*)/.exec(scan.text.slice(scan.at, scan.at + 256)) ?? []
    scan.at += whole.length
    if (!this.#anchors.has(name)) scan.fail(`unknown anchor '${name}' referenced`)
    return deepCopy(this.#budget, this.#anchors.get(name))
  }

  #flowNode(): YamlNode {
    const properties = this.#properties()
    this.#scan.skipToToken(true)
    if (/[,\]}]/.test(this.#scan.peek())) return { value: null, key: 'null' }
    const node = this.#scalarOrFlow(-1, properties.tag, true)
    this.#named(properties, node.value)
    this.#scan.skipToToken(true)
    return node
  }

  /** The value after a key in a flow; nil where there is none. */
  #flowValue(): Value {
    const scan = this.#scan
    if (scan.peek() !== ':') return null
    scan.at++
    scan.skipToToken(true)
    return this.#flowNode().value
  }

  #flowList(): Value {
    const scan = this.#scan
    const items: Value[] = []
    this.#flow(']', () => {
      const node = this.#flowNode()
      items.push(scan.peek() === ':' ? GoMap.of([[node.key, this.#flowValue()]]) : node.value)
    })
    return list(items)
  }

  #flowMap(): Value {
    const map = new GoMap()
    const merges: Value[] = []
    this.#flow('}', () => {
      const { key } = this.#flowNode()
      const value = this.#flowValue()
      if (key === '<<') merges.push(value)
      else map.set(key, value)
    })
    return this.#merged(map, merges)
  }

  #flow(close: string, read: () => void): void {
    const scan = this.#scan
    scan.at++
    for (;;) {
      scan.skipToToken(true)
      if (scan.peek() === close) break
      if (!scan.isAtEnd) {
        this.#budget.spend(1)
        read()
        scan.skipToToken(true)
      }
      if (scan.peek() === ',') scan.at++
      else if (scan.peek() !== close) scan.fail(`did not find expected ',' or '${close}'`, true)
    }
    scan.at++
  }
}

const listItems = (value: Value): Value[] =>
  typeof value === 'object' && value !== null && 'items' in value ? value.items : [value]
