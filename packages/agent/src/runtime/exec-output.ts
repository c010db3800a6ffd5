import type { ExecChunk } from './runtime.ts'

/** Enough to keep a stream busy, too little to hurt. */
const HIGH_BYTES = 1_048_576

/** Between a source that pushes what a command prints and a reader that takes it when it can. */
export interface ExecOutput extends AsyncIterable<ExecChunk> {
  push(chunk: ExecChunk): void
  end(): void
}

/** `hold` is told when the source should wait (true) and when it may go on (false). */
export function createExecOutput(hold: (isFull: boolean) => void): ExecOutput {
  const chunks: ExecChunk[] = []
  let held = 0
  let ended = false
  let wake: () => void = () => undefined

  async function* read(): AsyncGenerator<ExecChunk> {
    for (;;) {
      const chunk = chunks.shift()
      if (chunk !== undefined) {
        const wasFull = held >= HIGH_BYTES
        held -= chunk.bytes.byteLength
        if (wasFull && held < HIGH_BYTES) hold(false)
        yield chunk
      } else if (ended) return
      else await new Promise<void>((resolve) => (wake = resolve))
    }
  }

  return {
    push(chunk) {
      chunks.push(chunk)
      const wasFull = held >= HIGH_BYTES
      held += chunk.bytes.byteLength
      if (!wasFull && held >= HIGH_BYTES) hold(true)
      wake()
    },
    end() {
      ended = true
      wake()
    },
    [Symbol.asyncIterator]: () => read(),
  }
}
