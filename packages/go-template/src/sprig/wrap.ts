import type { Budget } from '../budget.ts'

/** Counts bytes, as the library under Sprig does. */
export function abbreviate(text: string, from: number, width: number): string {
  if (text.length <= width) return text
  const room = width - 3
  let offset = Math.min(from, text.length)
  if (text.length - offset < room) offset = text.length - room
  if (offset <= 4) return `${text.slice(0, room)}...`
  if (offset + room < text.length) return `...${abbreviate(text.slice(offset), 0, room)}`
  return `...${text.slice(text.length - room)}`
}

/** Breaks lines at blanks; a word longer than the width is cut only when `cutsWords`. */
export function wrap(
  budget: Budget,
  text: string,
  width: number,
  separator: string,
  cutsWords: boolean,
): string {
  const size = Math.max(width, 1)
  const lines: string[] = []
  let offset = 0
  while (text.length - offset > size) {
    budget.spend(1)
    if (text[offset] === ' ') {
      offset++
      continue
    }
    const blank = text.slice(offset, offset + size + 1).lastIndexOf(' ') + offset
    if (blank >= offset) {
      lines.push(text.slice(offset, blank))
      offset = blank + 1
    } else if (cutsWords) {
      lines.push(text.slice(offset, offset + size))
      offset += size
    } else {
      const next = text.indexOf(' ', offset + size)
      if (next < 0) break
      lines.push(text.slice(offset, next))
      offset = next + 1
    }
  }
  budget.text(text.length + lines.length * separator.length)
  return [...lines, text.slice(offset)].join(separator)
}
