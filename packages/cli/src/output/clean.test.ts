import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createLogFilter, plain } from './clean.ts'

const encoder = new TextEncoder()

function filtered(chunks: readonly Uint8Array[]): string {
  const filter = createLogFilter()
  return chunks.map((chunk) => filter.push(chunk)).join('') + filter.end()
}

describe('a log on a terminal', () => {
  it('keeps its colours and ends with a reset', () => {
    expect(filtered([encoder.encode('\u001B[31mred\u001B[0m\n')])).toBe('\u001B[31mred\u001B[0m\n\u001B[0m')
  })

  it('loses what moves the cursor, renames the window or asks the terminal to answer', () => {
    const hostile =
      'a\u001B[2Jb\u001B]0;owned\u0007c\u001B]52;c;ZXZpbA==\u001B\\d\u001BP+q\u001B\\e\u001B[6nf\u001Bcg'
    expect(filtered([encoder.encode(hostile)])).toBe('abcdefg')
  })

  it('cannot smuggle an escape in by the character that stands for one', () => {
    expect(filtered([encoder.encode('\u0001]0;owned\u0007x')])).toBe(']0;ownedx')
  })

  it('shows each state of a progress bar as a line of its own', () => {
    expect(filtered([encoder.encode('10 %\r20 %\r\ndone\n')])).toBe('10 %\n20 %\ndone\n')
  })

  it('is the same however its bytes are cut into chunks, and never holds an escape but of a colour', () => {
    const piece = fc.constantFrom(
      '\u001B',
      '[',
      '31m',
      ']0;x',
      '\u0007',
      '\\',
      'é',
      '\r',
      '\n',
      'text',
      '\u0001',
      '\u009B',
      '2J',
      'P',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), fc.integer({ min: 1, max: 7 }), (pieces, size) => {
        const bytes = encoder.encode(pieces.join(''))
        const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
          bytes.subarray(i * size, (i + 1) * size),
        )
        const text = filtered(chunks)
        expect(text).toBe(filtered([bytes]))
        // oxlint-disable no-control-regex -- the subject
        expect(text.replace(/\u001B\[[0-9;:]*m/g, '')).not.toMatch(
          /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/,
        )
      }),
    )
  })
})

describe('a word of others in a line', () => {
  it('has no control characters, no line breaks and no reordering marks', () => {
    expect(plain('a\u001B[31mb\nc\u202Ed\u0007\u0001')).toBe('ab cd')
  })
})
