import { plain } from './clean.ts'
import { clipTo, padTo, textWidth } from './width.ts'

export interface Column<T> {
  title: string
  value: (row: T) => string | number | null | undefined
  /** Applied after the cell was padded, so that colour takes part in no measure. */
  paint?: ((text: string, row: T) => string) | undefined
  /** Cut first when the terminal is too narrow. */
  shrink?: boolean
}

const GAP = '  '
const LEAST = 8

/** Aligned columns; with `width` the shrinking ones give way, without it (a pipe) nothing is cut. */
export function renderTable<T>(
  columns: readonly Column<T>[],
  rows: readonly T[],
  options: { width: number | undefined; bold: (text: string) => string },
): string[] {
  const cells = rows.map((row) => columns.map((column) => cellText(column.value(row))))
  const natural = columns.map((column, i) =>
    Math.max(column.title.length, ...cells.map((line) => textWidth(line[i] ?? ''))),
  )
  const widths = options.width === undefined ? natural : fit(columns, natural, options.width)
  const header = options.bold(joinLine(columns.map((c, i) => padTo(clipTo(c.title, widths[i]!), widths[i]!))))
  const body = cells.map((line, at) =>
    joinLine(
      columns.map((column, i) => {
        const text = padTo(clipTo(line[i] ?? '', widths[i]!), widths[i]!)
        return column.paint ? column.paint(text, rows[at]!) : text
      }),
    ),
  )
  return [header, ...body]
}

function cellText(value: string | number | null | undefined): string {
  if (value === null || value === undefined || value === '') return '-'
  return plain(String(value))
}

function joinLine(parts: string[]): string {
  return parts.join(GAP).trimEnd()
}

function fit<T>(columns: readonly Column<T>[], natural: readonly number[], width: number): number[] {
  const widths = [...natural]
  let over = widths.reduce((sum, w) => sum + w, 0) + GAP.length * (widths.length - 1) - width
  for (const [i, column] of columns.entries()) {
    if (over <= 0) break
    if (!column.shrink) continue
    const give = Math.min(over, Math.max(0, widths[i]! - Math.max(LEAST, column.title.length)))
    widths[i]! -= give
    over -= give
  }
  return widths
}

/** Names beside values, for one thing in full. */
export function renderFields(
  fields: readonly (readonly [string, string | number | null | undefined])[],
  dim: (text: string) => string,
): string[] {
  const width = Math.max(...fields.map(([title]) => title.length))
  return fields.map(([title, value]) => `${dim(padTo(title, width))}  ${cellText(value)}`)
}
