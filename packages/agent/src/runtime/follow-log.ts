import { open } from 'node:fs/promises'
import { watchChanges } from './changes.ts'

const CHUNK_BYTES = 64 * 1024
const POLL_MILLISECONDS = 500

/** The bytes of a growing file from `offset` on, until `ended` says that nothing more comes and all was read. */
export async function* followLog(
  file: string,
  offset: number,
  ended: () => Promise<boolean>,
  signal: AbortSignal,
  alsoWatch: string[] = [],
): AsyncGenerator<Uint8Array> {
  const handle = await open(file, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (handle === undefined) return
  const changes = watchChanges([file, ...alsoWatch], POLL_MILLISECONDS, signal)
  let position = offset
  try {
    while (!signal.aborted) {
      // Asked before reading: what was written before the end is then surely read.
      const isLast = await ended()
      for (;;) {
        const { bytesRead, buffer } = await handle.read(
          Buffer.allocUnsafe(CHUNK_BYTES),
          0,
          CHUNK_BYTES,
          position,
        )
        if (bytesRead === 0 || signal.aborted) break
        position += bytesRead
        yield buffer.subarray(0, bytesRead)
      }
      if (isLast) return
      await changes.next()
    }
  } finally {
    changes.close()
    await handle.close()
  }
}
