import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'

/** Immutable bytes by key, outside the database. Files now; an object store has the same three calls. */
export interface BlobStore {
  /** Durable once it resolves. The same key again replaces the same content. */
  put(key: string, bytes: Uint8Array): Promise<void>
  get(key: string, from: number): Readable
  remove(prefix: string): Promise<void>
}

export function createFileBlobs(dir: string): BlobStore {
  const pathOf = (key: string) => {
    if (!/^[a-z0-9_]+(\/[a-z0-9_.]+)*$/.test(key)) throw new Error(`not a blob key: ${key}`)
    return join(dir, key)
  }
  return {
    async put(key, bytes) {
      const path = pathOf(key)
      const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      const file = await open(temporary, 'w', 0o600)
      try {
        await file.writeFile(bytes)
        await file.datasync()
      } finally {
        await file.close()
      }
      await rename(temporary, path)
    },
    get: (key, from) => createReadStream(pathOf(key), { start: from }),
    remove: (prefix) => rm(pathOf(prefix), { recursive: true, force: true }),
  }
}
