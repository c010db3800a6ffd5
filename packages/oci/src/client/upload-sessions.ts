import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { unlessMissing } from '../storage/durable-file.ts'
import type { UploadSessions } from './blob-upload.ts'

/** One small file per open upload; losing one costs sending its blob again, nothing else. */
export const createUploadSessions = (dir: string): UploadSessions => {
  const fileOf = (key: string): string => join(dir, createHash('sha256').update(key).digest('hex'))
  return {
    get: async (key) => {
      const text = await unlessMissing(readFile(fileOf(key), 'utf8'))
      const [known, location] = text?.split('\n') ?? []
      return known === key ? location : undefined
    },
    set: async (key, location) => {
      await mkdir(dir, { recursive: true, mode: 0o700 })
      const temporary = `${fileOf(key)}.${randomBytes(4).toString('hex')}`
      await writeFile(temporary, `${key}\n${location}`, { mode: 0o600 })
      await rename(temporary, fileOf(key))
    },
    delete: (key) => rm(fileOf(key), { force: true }),
  }
}
