import { link, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { HostError, isCode } from './errors.ts'
import { fateOf, ownProcessRecord, readProcessRecord } from './process-identity.ts'

/** One local-host per folder: two would start everything twice. The lock of a dead one does not hold. */
export async function lockFolder(dir: string): Promise<() => Promise<void>> {
  const lock = join(dir, 'lock')
  const own = join(dir, `lock.${process.pid}`)
  await writeFile(own, ownProcessRecord(), { mode: 0o600 })
  try {
    for (let attempt = 0; attempt < 2; attempt += 1) {
      try {
        await link(own, lock)
        return () => rm(lock, { force: true })
      } catch (error) {
        if (!isCode(error, 'EEXIST')) throw error
      }
      const holder = readProcessRecord(lock)
      if (holder && fateOf(holder) === 'alive') throw alreadyRunning(dir, holder.pid)
      await rm(lock, { force: true })
    }
    throw alreadyRunning(dir, undefined)
  } finally {
    await rm(own, { force: true })
  }
}

function alreadyRunning(dir: string, pid: number | undefined): HostError {
  const who = pid === undefined ? 'Another local-host' : `Another local-host, process ${pid},`
  return new HostError('already_running', `${who} serves ${dir}.`, 'Stop it first, or use another folder.')
}
