import { randomBytes } from 'node:crypto'
import { access, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { OciError } from '../errors.ts'

/** A name is only durable once the folder that holds it has been synced. */
export const syncFolder = async (folder: string): Promise<void> => {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export const ensureFolder = async (folder: string): Promise<void> => {
  const first = await mkdir(folder, { recursive: true })
  if (first === undefined) return
  for (let made = folder; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made))
}

/** Moves a file that is already synced to its final name. */
export const publishFile = async (source: string, target: string): Promise<void> => {
  await ensureFolder(dirname(target))
  await rename(source, target)
  await syncFolder(dirname(target))
}

/** Readers see the old content or the new, never a part. */
export const writeFileDurably = async (
  temporaryFolder: string,
  target: string,
  bytes: Uint8Array,
): Promise<void> => {
  const temporary = temporaryName(temporaryFolder)
  try {
    const handle = await open(temporary, 'wx')
    try {
      await handle.writeFile(bytes)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await publishFile(temporary, target)
  } catch (error) {
    await rm(temporary, { force: true })
    throw storageError(error)
  }
}

export const temporaryName = (folder: string): string => join(folder, randomBytes(16).toString('hex'))

export const exists = async (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

/** Missing files become `undefined`; every other failure stays one. */
export const unlessMissing = async <T>(promise: Promise<T>): Promise<T | undefined> => {
  try {
    return await promise
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

export const isMissing = (error: unknown): boolean => {
  const code = errnoOf(error)
  return code === 'ENOENT' || code === 'ENOTDIR'
}

export const errnoOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined

export const storageError = (error: unknown): unknown => {
  const code = errnoOf(error)
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error
  return new OciError('STORAGE_FULL', 'The registry has no space left; free some and push again', {
    cause: error,
  })
}
