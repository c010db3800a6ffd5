import { describe, expect, it } from 'vitest'
import { renderTable, type Column } from './table.ts'
import { textWidth } from './width.ts'

const rows = [
  { name: 'web', note: 'a rather long note about this one' },
  { name: '日本語', note: 'wide' },
]
const columns: Column<(typeof rows)[number]>[] = [
  { title: 'NAME', value: (r) => r.name },
  { title: 'NOTE', value: (r) => r.note, shrink: true },
]
const bold = (text: string) => text

describe('a table', () => {
  it('is aligned by what is seen, not by the number of characters', () => {
    const lines = renderTable(columns, rows, { width: undefined, bold })
    expect(lines[1]).toBe('web     a rather long note about this one')
    expect(lines[2]).toBe('日本語  wide')
  })

  it('fits the terminal by cutting the columns that may shrink', () => {
    const lines = renderTable(columns, rows, { width: 24, bold })
    expect(Math.max(...lines.map(textWidth))).toBeLessThanOrEqual(24)
    expect(lines[1]).toContain('…')
  })

  it('cannot be broken by a cell with a line break or an escape sequence', () => {
    const lines = renderTable(columns, [{ name: 'a\nb', note: '\u001B[2Jx' }], { width: undefined, bold })
    expect(lines[1]).toBe('a b   x')
  })
})
