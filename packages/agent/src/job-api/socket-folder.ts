import { lstat, mkdir } from 'node:fs/promises'
import path from 'node:path'
import { sha256 } from '../crypto.ts'
import { readIfThere, replaceFile } from '../durable-file.ts'
import { AgentError } from '../errors.ts'

/** The kernel's bound on the path of a unix socket, without the closing zero. */
const MAX_SOCKET_PATH = 107

/**
 * The job API's socket. Running jobs know its path, so it is the same after a restart; where the agent's folder
 * is too deep for a socket, a short folder elsewhere takes its place, and is remembered.
 */
export async function prepareSocket(dir: string, temporary: string): Promise<string> {
  const remembered = path.join(dir, 'api-folder')
  const folder = (await readIfThere(remembered))?.trim() ?? chooseFolder(dir, temporary)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const found = await lstat(folder)
  const isOurs = found.isDirectory() && found.uid === process.getuid?.() && (found.mode & 0o077) === 0
  if (!isOurs) throw unsafe(folder)
  await replaceFile(remembered, `${folder}\n`)
  return path.join(folder, 'job.sock')
}

/** Pure. */
export function chooseFolder(dir: string, temporary: string): string {
  const near = path.join(path.resolve(dir), 'api')
  if (Buffer.byteLength(path.join(near, 'job.sock')) <= MAX_SOCKET_PATH) return near
  return path.join(temporary, `tenon-${sha256(Buffer.from(path.resolve(dir))).slice(0, 16)}`)
}

function unsafe(folder: string): AgentError {
  return new AgentError(
    'socket_folder_unsafe',
    `The folder ${folder} for the job API's socket is not one that only this user can enter.`,
    `Remove ${folder}, or run chmod 700 on it when it is yours.`,
  )
}
