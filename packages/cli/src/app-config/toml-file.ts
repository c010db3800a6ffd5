import { readFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Json } from '@tenon/core'
import { parse, TomlError } from 'smol-toml'
import { errorCode } from '../errors.ts'
import { TomlPlaces, type Path, type Place } from './locate.ts'
import type { Findings } from './problem.ts'

export const MOST_BYTES = 1024 * 1024

/** One file of the config, with the places of what it holds. */
export class TomlFile {
  /** Relative to the app's folder. */
  readonly file: string
  value: { [key: string]: Json }
  /** Values that came from other files, by the keys that lead to them. */
  readonly origins = new Map<string, string>()
  /** Of these, the ones from elsewhere, by field: from where, and which commit or content that was. */
  readonly fetched: { [field: string]: { from: string; pin: string } } = {}
  readonly #text: string
  readonly #findings: Findings
  #places: TomlPlaces | undefined

  constructor(file: string, text: string, value: { [key: string]: Json }, findings: Findings) {
    this.file = file
    this.#text = text
    this.value = value
    this.#findings = findings
  }

  problem(path: Path, message: string, expected: string): void {
    this.#findings.problems.push({ file: this.file, ...this.#at().key(path), message, expected })
  }

  /** At a place of a string, also where that was read from another file. */
  problemInString(path: Path, inside: Place, message: string, expected: string): void {
    this.#findings.problems.push({ ...this.inString(path, inside), message, expected })
  }

  warning(path: Path, message: string): void {
    this.#findings.warnings.push({ file: this.file, ...this.#at().key(path), message })
  }

  /** A field that nothing acts on, in a kind of file. */
  idle(kind: string, path: Path, field: string, mark: 'carried' | 'warned'): void {
    const place = () => this.#at().key(path)
    this.#findings.idle.push({ file: this.file, field, mark, kind, place })
  }

  /** Where a place of a string is: in this file, or in the one that the string was read from. */
  inString(path: Path, inside: Place): Place & { file: string } {
    const origin = this.origins.get(path.join('\u0000'))
    if (origin !== undefined) return { file: origin, ...inside }
    return { file: this.file, ...this.#at().inString(path, inside) }
  }

  #at(): TomlPlaces {
    this.#places ??= new TomlPlaces(this.#text)
    return this.#places
  }
}

/** Undefined when it is absent or broken; the latter is a problem. */
export function readToml(folder: string, file: string, findings: Findings): TomlFile | undefined {
  const fail = (message: string, expected: string, line = 1, column = 1): undefined => {
    findings.problems.push({ file, line, column, message, expected })
  }
  const path = join(folder, file)
  let text: string
  try {
    // At once: hundreds of small files are read several times faster than through the pool of threads.
    const bytes = readFileSync(path)
    if (bytes.length > MOST_BYTES) return fail('the file is too large', 'at most 1 MB')
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    if (cause instanceof TypeError) return fail('the file is not UTF-8 text', 'a file in UTF-8')
    if (errorCode(cause) === 'ENOENT') return undefined
    return fail(`the file cannot be read (${errorCode(cause)})`, 'a readable file')
  }
  try {
    const parsed = parse(text)
    const found: NotJson[] = []
    // Most files hold nothing that JSON does not have.
    const value = (isJson(parsed, 60) ? parsed : toJson(parsed, [], found)) as { [key: string]: Json }
    const toml = new TomlFile(file, text, value, findings)
    for (const { path: at, expected } of found)
      toml.problem(at, `${at.join('.')} has a wrong value`, expected)
    return found.length === 0 ? toml : undefined
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const open = openText(text, error)
    if (open)
      return fail(
        `the text that begins here has no closing ${open.quote}`,
        open.quote,
        open.line,
        open.column,
      )
    return fail(reasonOf(error), 'valid TOML', error.line, error.column)
  }
}

function reasonOf(error: TomlError): string {
  return error.message.replace(/^Invalid TOML document: /, '').split('\n')[0] ?? ''
}

/** Where a text begins that is not closed: on its own line, or for one of several lines until the end of the file. */
function openText(text: string, error: TomlError): (Place & { quote: string }) | undefined {
  const reason = reasonOf(error)
  const line = text.split('\n')[error.line - 1] ?? ''
  const runsOut = reason.startsWith('control characters') && error.column > line.replace(/\r$/, '').length
  if (!runsOut && reason !== 'unfinished string') return undefined
  for (const { 0: quote, index } of line.matchAll(/"""|'''|"(?:[^"\\]|\\.)*"|'[^']*'|#.*|"|'/g)) {
    if (/^(?:"""|'''|"|')$/.test(quote)) return { line: error.line, column: index + 1, quote }
  }
  return undefined
}

interface NotJson {
  path: Path
  expected: string
}

function isJson(value: unknown, depth: number): boolean {
  if (typeof value === 'string') return !/[\0\p{Surrogate}]/u.test(value)
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || value === null) return true
  if (depth === 0 || value instanceof Date) return false
  return Object.values(value).every((child) => isJson(child, depth - 1))
}

/** Dates become their text: the configuration travels as JSON. */
function toJson(value: unknown, path: Path, found: NotJson[]): Json {
  if (typeof value === 'number' && !Number.isFinite(value)) found.push({ path, expected: 'a finite number' })
  if (typeof value === 'string' && /[\0\p{Surrogate}]/u.test(value))
    found.push({ path, expected: 'text without the zero character' })
  if (value instanceof Date) return value.toISOString()
  if (path.length > 60) {
    found.push({ path: path.slice(0, 1), expected: 'at most 60 levels' })
    return null
  }
  if (Array.isArray(value)) return value.map((child, i) => toJson(child, [...path, i], found))
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(
      ([key, child]) => [key, toJson(child, [...path, key], found)] as const,
    )
    return Object.fromEntries(entries)
  }
  return value as Json
}

/** Whether there is a folder. */
export function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}
