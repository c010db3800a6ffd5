import { randomUUID } from 'node:crypto'
import { link, readFile, rename, unlink, writeFile } from 'node:fs/promises'
import type { z } from 'zod'

/** All at once. Whatever fails, nothing is under way any more when this throws. */
export async function allDone(works: readonly Promise<unknown>[]): Promise<void> {
  const failed = (await Promise.allSettled(works)).find((end) => end.status === 'rejected')
  if (failed) throw failed.reason
}

/** Whole or not at all, also when two write the same file at once. */
export async function placeFile(file: string, content: string, place: Place = rename): Promise<void> {
  const draft = `${file}.${randomUUID()}`
  await writeFile(draft, content, { mode: 0o600, flag: 'wx' })
  await place(draft, file)
}

type Place = (draft: string, file: string) => Promise<void>

/** For `placeFile`: whoever wrote the file first wins. */
export async function keepFirst(draft: string, file: string): Promise<void> {
  await link(draft, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  await unlink(draft)
}

/** Undefined when there is no such file. */
export async function readText(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined
    throw error
  })
}

/** Undefined also when the file does not have the form: a job may have written it. */
export async function readJson<T>(file: string, schema: z.ZodType<T>): Promise<T | undefined> {
  const text = await readText(file)
  if (text === undefined) return undefined
  try {
    return schema.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}
