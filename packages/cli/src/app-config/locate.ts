export interface Place {
  line: number
  column: number
}

export type Key = string | number
export type Path = readonly Key[]

interface Entry {
  /** Offset of the key, and of the value after it. */
  key: number
  value: number
}

/** Where everything stands in a TOML text that has parsed: made once, when there is something to point at. */
export class TomlPlaces {
  readonly #text: string
  readonly #entries = new Map<string, Entry>()
  #at = 0

  constructor(text: string) {
    this.#text = text
    this.#document()
  }

  /** The key that leads to a value; the nearest thing above it when it is absent. */
  key(path: Path): Place {
    for (let depth = path.length; depth > 0; depth--) {
      const entry = this.#entries.get(nameOf(path.slice(0, depth)))
      if (entry) return this.#place(entry.key)
    }
    return { line: 1, column: 1 }
  }

  /** A place inside a string value, given as the line and the column in the string itself, both from 1. */
  inString(path: Path, inside: Place): Place {
    const entry = this.#entries.get(nameOf(path))
    const opened = entry && /^("""|'''|"|')/.exec(this.#text.slice(entry.value, entry.value + 3))?.[0]
    if (!entry || !opened) return this.key(path)
    return this.#place(this.#offsetInString(entry.value, opened, inside))
  }

  #offsetInString(start: number, quote: string, inside: Place): number {
    let at = start + quote.length
    if (quote.length === 3) at += /^\r?\n/.exec(this.#text.slice(at, at + 2))?.[0].length ?? 0
    let { line, column } = { line: 1, column: 1 }
    while (at < this.#text.length && (line < inside.line || column < inside.column)) {
      const piece = quote.startsWith('"') ? escapeAt(this.#text, at) : undefined
      const char = piece?.char ?? String.fromCodePoint(this.#text.codePointAt(at)!)
      if (char === '\n') {
        if (line === inside.line) break
        line++
        column = 1
      } else if (char !== '') column++
      at += piece?.length ?? char.length
    }
    return at
  }

  #place(offset: number): Place {
    const before = this.#text.slice(0, offset)
    const line = before.split('\n').length
    return { line, column: offset - before.lastIndexOf('\n') }
  }

  // ---- the document: what has parsed is valid, so that only its shape is read

  #document(): void {
    let table: Key[] = []
    const counts = new Map<string, number>()
    for (;;) {
      this.#skip(/[\s]|#[^\n]*/y)
      if (this.#at >= this.#text.length) return
      const start = this.#at
      if (this.#text[this.#at] === '[') {
        const isList = this.#text[this.#at + 1] === '['
        this.#at += isList ? 2 : 1
        table = resolve(this.#keys(), counts, isList)
        this.#add(table, start, this.#at)
        this.#at = endOfLine(this.#text, this.#at)
      } else this.#assignment(table, start)
      if (this.#at === start) return
    }
  }

  #assignment(table: Path, start: number): void {
    const path = [...table, ...this.#keys()]
    this.#skip(/[ \t=]/y)
    this.#value(path, start)
  }

  #add(path: Path, key: number, value: number): void {
    // What is only named on the way to something stands where that does.
    for (let depth = path.length; depth > 0; depth--) {
      const name = nameOf(path.slice(0, depth))
      if (this.#entries.has(name)) return
      this.#entries.set(name, { key, value })
    }
  }

  #value(path: Path, key: number): void {
    this.#add(path, key, this.#at)
    const first = this.#text[this.#at]
    if (first === '"' || first === "'") this.#match(STRING)
    else if (first === '[') this.#list(path)
    else if (first === '{') this.#inlineTable(path)
    else this.#match(/[^,\]}\n#]*/y)
  }

  #list(path: Path): void {
    this.#at++
    for (let index = 0; ; index++) {
      this.#skip(/[\s,]|#[^\n]*/y)
      if (this.#at >= this.#text.length || this.#text[this.#at] === ']') break
      const start = this.#at
      this.#value([...path, index], start)
      if (this.#at === start) break
    }
    this.#at++
  }

  #inlineTable(path: Path): void {
    this.#at++
    for (;;) {
      this.#skip(/[\s,]|#[^\n]*/y)
      if (this.#at >= this.#text.length || this.#text[this.#at] === '}') break
      const start = this.#at
      this.#assignment(path, start)
      if (this.#at === start) break
    }
    this.#at++
  }

  #keys(): string[] {
    const keys: string[] = []
    do {
      this.#skip(/[ \t.]/y)
      const found = this.#match(/"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|([\w-]+)/y)
      if (!found) return keys
      keys.push(found[1] ?? found[2] ?? found[3] ?? '')
      this.#skip(/[ \t]/y)
    } while (this.#text[this.#at] === '.')
    return keys
  }

  #skip(pattern: RegExp): void {
    while (this.#match(pattern)) {
      // on to the next
    }
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)
    if (found) this.#at = pattern.lastIndex
    return found
  }
}

const STRING =
  /"""(?:[^"\\]|\\[\s\S]|"(?!""))*"{3,5}|'''(?:[^']|'(?!''))*'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'/y

/** The keys of a header as a path: where it goes through a list of tables, the last of them is meant. */
function resolve(keys: readonly string[], counts: Map<string, number>, isList: boolean): Key[] {
  const path: Key[] = []
  for (const [i, key] of keys.entries()) {
    path.push(key)
    const name = nameOf(path)
    const count = counts.get(name)
    if (isList && i === keys.length - 1) {
      counts.set(name, (count ?? 0) + 1)
      path.push(count ?? 0)
    } else if (count !== undefined) path.push(count - 1)
  }
  return path
}

/** An escape of a basic string; `char` is empty for a line's end that the string leaves out. */
function escapeAt(text: string, at: number): { char: string; length: number } | undefined {
  if (text[at] !== '\\') return undefined
  const folded = /^\\[ \t]*\r?\n\s*/.exec(text.slice(at, at + 2000))
  if (folded) return { char: '', length: folded[0].length }
  const unicode = /^\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2}))/.exec(text.slice(at, at + 10))
  if (unicode) {
    const code = Number.parseInt(unicode[1] ?? unicode[2] ?? unicode[3] ?? '0', 16)
    return { char: code === 10 ? '\n' : 'x', length: unicode[0].length }
  }
  return { char: text[at + 1] === 'n' ? '\n' : 'x', length: 2 }
}

function endOfLine(text: string, at: number): number {
  const end = text.indexOf('\n', at)
  return end < 0 ? text.length : end
}

function nameOf(path: Path): string {
  return path.join('\u0000')
}
