import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** After this resolves the whole file is there for good; before, either nothing or what was there. */
export async function writeDurably(tmpFolder: string, path: string, bytes: Uint8Array): Promise<void> {
  const tmp = join(tmpFolder, randomBytes(12).toString('hex'))
  try {
    const file = await open(tmp, 'wx', 0o600)
    try {
      await file.writeFile(bytes)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(tmp, path)
  } catch (cause) {
    await rm(tmp, { force: true })
    throw cause
  }
  await syncFolder(dirname(path))
}

export async function makeFolder(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let folder = path; folder.length >= first.length; folder = dirname(folder)) {
    await syncFolder(dirname(folder))
  }
}

export async function removeDurably(paths: readonly string[]): Promise<void> {
  for (const path of paths) await rm(path, { force: true })
  for (const folder of new Set(paths.map(dirname))) await syncFolder(folder)
}

export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/** The names in a folder; none when the folder is not there. */
export async function namesIn(path: string): Promise<string[]> {
  try {
    return await readdir(path)
  } catch (cause) {
    if (isMissing(cause)) return []
    throw cause
  }
}

export function isMissing(error: unknown): boolean {
  return hasCode(error, 'ENOENT')
}

export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
