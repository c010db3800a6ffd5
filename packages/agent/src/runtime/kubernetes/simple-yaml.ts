/**
 * The part of YAML that kubeconfigs are written in: block mappings and lists, flow mappings and lists, quoted and
 * plain scalars, comments. Everything else throws, so that nothing is misread.
 */
export function parseYaml(text: string): unknown {
  const lines = text
    .split('\n')
    .map((raw, index) => ({ number: index + 1, text: withoutComment(raw).trimEnd() }))
    .filter((line) => line.text.trim() !== '' && line.text.trim() !== '---')
    .map((line) => ({ ...line, indent: line.text.length - line.text.trimStart().length }))
  const reader = { lines: lines.map((line) => ({ ...line, text: line.text.trimStart() })), at: 0 }
  const value = reader.lines.length === 0 ? null : readBlock(reader, reader.lines[0]?.indent ?? 0)
  const rest = reader.lines[reader.at]
  if (rest !== undefined) throw notUnderstood(rest)
  return value
}

function readBlock(reader: Reader, indent: number): unknown {
  const first = reader.lines[reader.at]
  if (first === undefined) return null
  return isItem(first) ? readList(reader, indent) : readMapping(reader, indent)
}

function readList(reader: Reader, indent: number): unknown[] {
  const items: unknown[] = []
  for (let line = here(reader, indent); line !== undefined && isItem(line); line = here(reader, indent)) {
    const rest = line.text.slice(1).trimStart()
    const inner = line.indent + line.text.length - rest.length
    if (rest === '') {
      reader.at += 1
      items.push(readBlock(reader, reader.lines[reader.at]?.indent ?? 0))
    } else if (KEY.test(rest) && !rest.startsWith('{')) {
      // The item's mapping begins on the line of its dash.
      line.text = rest
      line.indent = inner
      items.push(readMapping(reader, inner))
    } else if (rest.startsWith('- ')) {
      throw notUnderstood(line)
    } else {
      reader.at += 1
      items.push(readScalar(rest, line))
    }
  }
  return items
}

const KEY = /^("[^"]*"|'[^']*'|[^\s"'{}[\],#&*!|>%@`][^:]*?):(\s+(.*))?$/

function readMapping(reader: Reader, indent: number): Record<string, unknown> {
  const entries: [string, unknown][] = []
  for (let line = here(reader, indent); line !== undefined; line = here(reader, indent)) {
    const found = KEY.exec(line.text)
    if (found === null) throw notUnderstood(line)
    const key = String(readScalar(found[1] ?? '', line))
    const inline = found[3] ?? ''
    reader.at += 1
    if (inline !== '') entries.push([key, readScalar(inline, line)])
    else {
      const next = reader.lines[reader.at]
      const isNested =
        next !== undefined && (next.indent > indent || (next.indent === indent && isItem(next)))
      entries.push([key, isNested ? readBlock(reader, next.indent) : null])
    }
  }
  return Object.fromEntries(entries)
}

function here(reader: Reader, indent: number): Line | undefined {
  const line = reader.lines[reader.at]
  if (line === undefined || line.indent < indent) return undefined
  if (line.indent > indent) throw notUnderstood(line)
  return line
}

function isItem(line: Line): boolean {
  return line.text === '-' || line.text.startsWith('- ')
}

function readScalar(text: string, line: Line): unknown {
  const flow = { text, at: 0, line }
  const value = readFlow(flow, '')
  skip(flow)
  if (flow.at < text.length) throw notUnderstood(line)
  return value
}

function readFlow(flow: Flow, closers: string): unknown {
  skip(flow)
  const { text } = flow
  const first = text[flow.at] ?? ''
  if (first === '{') return Object.fromEntries(readItems(flow, '}', () => readPair(flow)))
  if (first === '[') return readItems(flow, ']', () => readFlow(flow, ',]'))
  if (first === '"' || first === "'") return readQuoted(flow, first)
  if ('&*!|>%@`'.includes(first) && first !== '') throw notUnderstood(flow.line)
  const start = flow.at
  while (flow.at < text.length && !closers.includes(text[flow.at] ?? '')) flow.at += 1
  return plain(text.slice(start, flow.at).trim())
}

function readItems<T>(flow: Flow, closer: string, read: () => T): T[] {
  const items: T[] = []
  flow.at += 1
  for (;;) {
    skip(flow)
    if (flow.text[flow.at] === closer) break
    items.push(read())
    skip(flow)
    if (flow.text[flow.at] === ',') flow.at += 1
    else if (flow.text[flow.at] !== closer) throw notUnderstood(flow.line)
  }
  flow.at += 1
  return items
}

function readPair(flow: Flow): [string, unknown] {
  const key = readFlow(flow, ':,}')
  skip(flow)
  if (flow.text[flow.at] !== ':') throw notUnderstood(flow.line)
  flow.at += 1
  return [String(key), readFlow(flow, ',}')]
}

function readQuoted(flow: Flow, quote: string): string {
  const pattern = quote === '"' ? /"(?:[^"\\]|\\.)*"/y : /'(?:[^']|'')*'/y
  pattern.lastIndex = flow.at
  const found = pattern.exec(flow.text)
  if (found === null) throw notUnderstood(flow.line)
  flow.at = pattern.lastIndex
  if (quote === '"') return JSON.parse(found[0]) as string
  return found[0].slice(1, -1).replaceAll("''", "'")
}

function plain(text: string): unknown {
  if (text === '' || text === '~' || text === 'null') return null
  if (text === 'true' || text === 'false') return text === 'true'
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text
}

function skip(flow: Flow): void {
  while (flow.text[flow.at] === ' ') flow.at += 1
}

/** A comment stands at the start or after a space, and never inside quotes. */
function withoutComment(line: string): string {
  const found = /^(?:[^"'#]|"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|(?<=\S)#)*/.exec(line)?.[0] ?? ''
  return line[found.length] === '#' ? found : line
}

function notUnderstood(line: Line): Error {
  return new Error(`line ${line.number} is YAML that is not understood here: ${line.text.slice(0, 60)}`)
}

interface Line {
  number: number
  text: string
  indent: number
}

interface Reader {
  lines: Line[]
  at: number
}

interface Flow {
  text: string
  at: number
  line: Line
}
