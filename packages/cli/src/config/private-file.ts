import { randomBytes } from 'node:crypto'
import { chmod, mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { z } from 'zod'
import { CliError, errorCode } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'

/** A JSON file that only its owner can read, replaced whole, so that a crash leaves the old or the new one. */
export async function writePrivateJson(path: string, value: unknown): Promise<void> {
  const folder = dirname(path)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await chmod(folder, 0o700)
  await replaceJson(path, value)
}

/** As that, in a folder that may be somebody else's and keeps its mode. */
export async function replaceJson(path: string, value: unknown): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const part = `${path}.${randomBytes(6).toString('hex')}`
  try {
    const file = await open(part, 'wx', 0o600)
    try {
      await file.writeFile(`${JSON.stringify(value, null, 2)}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(part, path)
  } catch (cause) {
    await rm(part, { force: true })
    throw cause
  }
}

/** Undefined when the file is absent; a file that cannot be used is an error that says which and why. */
export async function readJson<T extends z.ZodType>(
  path: string,
  schema: T,
): Promise<z.output<T> | undefined> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return undefined
    throw unusable(path, (cause as Error).message, cause)
  }
  try {
    const parsed = schema.safeParse(JSON.parse(text))
    if (parsed.success) return parsed.data
    throw unusable(path, parsed.error.issues.map((i) => `${i.path.join('.')}: ${i.message}`).join('; '))
  } catch (cause) {
    if (cause instanceof CliError) throw cause
    throw unusable(path, 'it is not JSON', cause)
  }
}

function unusable(path: string, why: string, cause?: unknown): CliError {
  return new CliError(EXIT.usage, `cannot use ${path}: ${why}`, {
    next: `repair it, or move it away: mv ${path} ${path}.broken`,
    cause,
  })
}
