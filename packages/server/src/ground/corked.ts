import type { Duplex } from 'node:stream'

/** Called before each write: whatever is written in one turn of the event loop leaves in one packet, at its end. */
export function corked(stream: Duplex): () => void {
  let isCorked = false
  const uncork = () => {
    isCorked = false
    stream.uncork()
  }
  return () => {
    if (isCorked) return
    isCorked = true
    stream.cork()
    process.nextTick(uncork)
  }
}
