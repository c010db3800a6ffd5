import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export type PidFile = { pid: number; port: number | undefined; status: string | undefined }

export function pidFilePath(dataDir: string): string {
  return join(dataDir, 'postmaster.pid')
}

export function readPidFile(dataDir: string): PidFile | undefined {
  try {
    return parsePidFile(readFileSync(pidFilePath(dataDir), 'utf8'))
  } catch {
    return undefined
  }
}

/** Lines: pid, data folder, start time, port, socket folder, address, shared memory, status. */
export function parsePidFile(text: string): PidFile | undefined {
  const lines = text.split('\n')
  const pid = Number(lines[0]?.trim() || 'none')
  if (!Number.isSafeInteger(pid) || pid === 0) return undefined
  const port = Number(lines[3]?.trim() || 'none')
  const status = lines[7]?.trim()
  return {
    pid: Math.abs(pid),
    port: Number.isSafeInteger(port) ? port : undefined,
    status: status === '' ? undefined : status,
  }
}
