import { open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { z } from 'zod'
import { isCode, messageOf } from './errors.ts'

/** Durable and all-or-nothing: a reader sees the old content or the new one, also after a power cut. */
export async function writeStateFile(path: string, value: unknown): Promise<void> {
  const temporary = `${path}.tmp`
  await rm(temporary, { force: true })
  const file = await open(temporary, 'wx', 0o600)
  try {
    await file.writeFile(`${JSON.stringify(value, null, 2)}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, path)
  const folder = await open(dirname(path), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

export type Loaded<T> = { kind: 'found'; value: T } | { kind: 'absent' } | { kind: 'broken'; problem: string }

/** A file that does not parse or fit is moved beside itself, so that it can be looked at and is in nobody's way. */
export async function readStateFile<T>(path: string, schema: z.ZodType<T>, now: number): Promise<Loaded<T>> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (isCode(error, 'ENOENT')) return { kind: 'absent' }
    return { kind: 'broken', problem: `${path} cannot be read: ${messageOf(error)}` }
  }
  try {
    return { kind: 'found', value: schema.parse(JSON.parse(text)) }
  } catch {
    const aside = `${path}.broken-${now}`
    await rename(path, aside)
    return { kind: 'broken', problem: `${path} is broken; it was set aside as ${aside}` }
  }
}
