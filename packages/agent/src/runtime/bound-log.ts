import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)
const BLOCK_BYTES = 512
/** Freed in one go: a program is started for it. */
const SLACK_BYTES = 4_194_304

/**
 * Gives back the disk space of a log past its first `keep` bytes; what it answers is how large the log is. Its size and
 * so all offsets stay, since whoever appends to it goes on at its end: there is a hole where nobody reads.
 */
export async function boundLog(file: string, keep: number): Promise<number> {
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (found === undefined) return 0
  const { size, blocks } = found
  if (blocks * BLOCK_BYTES > keep + SLACK_BYTES && size > keep) {
    const range = ['--offset', String(keep), '--length', String(size - keep)]
    await run('fallocate', ['--punch-hole', ...range, file])
  }
  return size
}
