import type { Io, Terminal } from '../io.ts'
import { paintFor, type Paint } from './paint.ts'
import { renderFields, renderTable, type Column } from './table.ts'

/** What the user asked for goes to stdout; everything about the way there to stderr. */
export interface Output {
  paint: Paint
  notePaint: Paint
  /** Undefined when stdout is no terminal. */
  width: number | undefined
  line(text?: string): void
  raw(chunk: string | Uint8Array): Promise<void>
  json(value: unknown): void
  table<T>(columns: readonly Column<T>[], rows: readonly T[], empty: string): void
  fields(fields: readonly (readonly [string, string | number | null | undefined])[]): void
  note(text: string): void
}

export function createOutput(io: Pick<Io, 'stdout' | 'stderr' | 'env'>): Output {
  const paint = paintFor(io.stdout, io.env)
  const width = io.stdout.isTTY ? io.stdout.columns || 80 : undefined
  const line = (text = '') => void io.stdout.write(`${text}\n`)
  const note = (text: string) => void io.stderr.write(`${text}\n`)
  return {
    paint,
    notePaint: paintFor(io.stderr, io.env),
    width,
    line,
    raw: (chunk) => writeAll(io.stdout, chunk),
    json: (value) => line(JSON.stringify(value, null, 2)),
    table: (columns, rows, empty) => {
      if (rows.length === 0) return note(empty)
      for (const text of renderTable(columns, rows, { width, bold: paint.bold })) line(text)
    },
    fields: (fields) => {
      for (const text of renderFields(fields, paint.dim)) line(text)
    },
    note,
  }
}

/** Waits while a slow reader catches up, so that a long log is never held in memory. */
function writeAll(stream: Terminal, chunk: string | Uint8Array): Promise<void> {
  if (stream.write(chunk) || stream.destroyed) return Promise.resolve()
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done)
      stream.off('close', done)
      stream.off('error', done)
      resolve()
    }
    stream.on('drain', done)
    stream.on('close', done)
    stream.on('error', done)
  })
}
