import { createHash } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { unlessMissing } from '../storage/durable-file.ts'
import type { UploadSessions } from './blob-upload.ts'

/** One small file per open upload; losing one costs sending its blob again, nothing else. */
export const createUploadSessions = (dir: string): UploadSessions => {
  const fileOf = (key: string): string => join(dir, createHash('sha256').update(key).digest('hex'))
  return {
    get: async (key) => {
      const text = await unlessMissing(readFile(fileOf(key), 'utf8'))
      const [known, location, end] = text?.split('\n') ?? []
      return known === key && end === '' ? location : undefined
    },
    set: async (key, location) => {
      await mkdir(dir, { recursive: true, mode: 0o700 })
      // The closing line tells a whole file from one that a death cut short.
      await writeFile(fileOf(key), `${key}\n${location}\n`, { mode: 0o600 })
    },
    delete: (key) => rm(fileOf(key), { force: true }),
  }
}
