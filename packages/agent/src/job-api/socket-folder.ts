import { chmod, chown, lstat, mkdir } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { sha256 } from '../ground/crypto.ts'
import { readIfThere, replaceFile } from '../ground/durable-file.ts'
import { AgentError } from '../ground/errors.ts'

/** The kernel's bound on the path of a unix socket, without the closing zero. */
const MAX_SOCKET_PATH = 107

const memorySchema = z.object({ dir: z.string(), folder: z.string() })

/**
 * The job API's socket. Running jobs know its path, so it is the same after a restart; where the agent's folder
 * is too deep for a socket, a short folder elsewhere takes its place, and is remembered.
 */
export async function prepareSocket(dir: string, temporary: string, jobGroup?: number): Promise<string> {
  const memory = path.join(dir, 'api-folder.json')
  const folder = rememberedFolder(await readIfThere(memory), dir) ?? chooseFolder(dir, temporary)
  await makePrivateFolder(folder, jobGroup)
  await replaceFile(memory, `${JSON.stringify({ dir: path.resolve(dir), folder })}\n`)
  return path.join(folder, 'job.sock')
}

/** Nobody but this user can enter it, and the group of jobs where one is named. */
export async function makePrivateFolder(folder: string, jobGroup?: number): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const found = await lstat(folder)
  // What an earlier life opened to the jobs' group is as safe as a folder of this user alone.
  const strangers = found.gid === jobGroup ? 0o067 : 0o077
  const isOurs = found.isDirectory() && found.uid === process.getuid?.() && (found.mode & strangers) === 0
  if (!isOurs) throw unsafe(folder)
  if (jobGroup !== undefined) {
    await chown(folder, found.uid, jobGroup)
    await chmod(folder, 0o710)
  }
}

/** A copy of the agent's folder must not take the socket of the one it was copied from. */
function rememberedFolder(text: string | undefined, dir: string): string | undefined {
  const parsed = memorySchema.safeParse(parseJson(text ?? ''))
  return parsed.success && parsed.data.dir === path.resolve(dir) ? parsed.data.folder : undefined
}

/** Pure. */
export function chooseFolder(dir: string, temporary: string, name: 'api' | 'admin' = 'api'): string {
  const near = path.join(path.resolve(dir), name)
  if (Buffer.byteLength(path.join(near, 'admin.sock')) <= MAX_SOCKET_PATH) return near
  const prefix = name === 'api' ? 'tenon' : `tenon-${name}`
  return path.join(temporary, `${prefix}-${sha256(Buffer.from(path.resolve(dir))).slice(0, 16)}`)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function unsafe(folder: string): AgentError {
  return new AgentError(
    'socket_folder_unsafe',
    `The folder ${folder} for a socket of the agent is not one that only this user can enter.`,
    `Remove ${folder}, or run chmod 700 on it when it is yours.`,
  )
}
