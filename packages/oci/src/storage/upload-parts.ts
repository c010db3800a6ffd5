import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { OciError } from '../errors.ts'
import type { Digest, DigestAlgorithm } from '../reference.ts'

export interface Part {
  offset: number
  size: number
}

export interface SealedFile {
  file: string
  digest: Digest
}

export const partName = (offset: number): string => String(offset).padStart(16, '0')

export const readParts = async (path: string): Promise<Part[]> => {
  const names = (await readdir(path)).filter((name) => /^\d{16}$/.test(name)).toSorted()
  const parts = await Promise.all(
    names.map(async (name) => ({ offset: Number(name), size: (await stat(join(path, name))).size })),
  )
  return parts.filter((part) => part.size > 0)
}

/** Parts that overlap or leave a hole come from two writers at once; only a new upload helps. */
export const sizeOf = (parts: Part[]): number => {
  let size = 0
  for (const part of parts) {
    if (part.offset !== size) {
      throw new OciError('UPLOAD_UNKNOWN', 'The upload was written by two requests at once; start a new one')
    }
    size += part.size
  }
  return size
}

/** Copies what several requests wrote into one file. */
export const joinParts = async (
  path: string,
  parts: Part[],
  file: string,
  algorithm: DigestAlgorithm,
): Promise<SealedFile> => {
  const hash = createHash(algorithm)
  const handle = await open(file, 'wx')
  try {
    for (const part of parts) {
      const end = part.size - 1
      for await (const chunk of createReadStream(join(path, partName(part.offset)), { end })) {
        hash.update(chunk as Buffer)
        await handle.appendFile(chunk as Buffer)
      }
    }
    return { file, digest: `${algorithm}:${hash.digest('hex')}` }
  } catch (error) {
    await rm(file, { force: true })
    throw error
  } finally {
    await handle.close()
  }
}

/** Reads a file again whose hash did not run along in this algorithm. */
export const hashFile = async (file: string, algorithm: DigestAlgorithm): Promise<SealedFile> => {
  const hash = createHash(algorithm)
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer)
  return { file, digest: `${algorithm}:${hash.digest('hex')}` }
}
