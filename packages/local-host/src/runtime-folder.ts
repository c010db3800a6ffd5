import { createHash } from 'node:crypto'
import { lstat, mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { HostError } from './errors.ts'

/** A socket address holds 108 bytes on Linux, 104 on macOS, its final NUL included. */
const MAX_SOCKET_PATH = 100

/** The sockets' folder: inside `dir` where paths stay short enough, else a short one that only we can enter. */
export async function runtimeFolder(dir: string): Promise<string> {
  const inside = join(dir, 'run')
  const fits = Buffer.byteLength(installSocket(inside, 'any')) <= MAX_SOCKET_PATH
  const folder = fits ? inside : join(tmpdir(), `tenon-${shortHash(dir)}`)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const stat = await lstat(folder)
  const isOurs = stat.isDirectory() && stat.uid === process.getuid?.() && (stat.mode & 0o077) === 0
  if (isOurs) return folder
  const message = `${folder} is not a folder that only this user can enter.`
  throw new HostError('runtime_folder', message, `Remove ${folder} and start again.`)
}

export function adminSocket(folder: string): string {
  return join(folder, 'admin.sock')
}

/** In a folder of its own, so that a job's confinement can let in this one socket and no other. */
export function installSocket(folder: string, installId: string): string {
  return join(folder, shortHash(installId), 'host.sock')
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12)
}
