import type { Terminal } from '../io.ts'

/** A block of lines on a terminal that is drawn again in place. */
export function createLive(stream: Terminal): { draw(lines: readonly string[]): void; clear(): void } {
  let height = 0
  const back = () => (height === 0 ? '\r' : `\u001B[${height}A\r`)
  return {
    draw(lines) {
      const most = Math.max(1, (stream.rows || 24) - 1)
      const shown = lines.slice(-most)
      stream.write(`${back()}\u001B[J${shown.map((line) => `${line}\n`).join('')}`)
      height = shown.length
    },
    clear() {
      if (height > 0) stream.write(`${back()}\u001B[J`)
      height = 0
    },
  }
}
