import { randomBytes } from 'node:crypto'
import { link, mkdir, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { PluginError } from '../sdk/errors.ts'

const key = z.string().regex(/^[A-Za-z0-9_-]{43}$/)
const keysFile = z.strictObject({ registry: key, store: key })

/** 32 random bytes each, as base64url text. */
export type InstallKeys = z.infer<typeof keysFile>

/** Kept on the customer's machine alone, beside the install they open, and made exactly once. */
export async function ensureKeys(hostDir: string, installId: string): Promise<InstallKeys> {
  const path = keysPath(hostDir, installId)
  const known = await readKeys(path)
  if (known) return known
  await mkdir(join(hostDir, 'keys'), { recursive: true, mode: 0o700 })
  const made = { registry: newKey(), store: newKey() }
  const staged = `${path}.${randomBytes(6).toString('hex')}`
  try {
    const handle = await open(staged, 'wx', 0o600)
    try {
      await handle.writeFile(JSON.stringify(made))
      await handle.sync()
    } finally {
      await handle.close()
    }
    // A link never replaces: of two jobs at once, both end with the keys of the first.
    await link(staged, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(staged, { force: true })
  }
  return (await readKeys(path)) ?? made
}

export async function removeKeys(hostDir: string, installId: string): Promise<void> {
  await rm(keysPath(hostDir, installId), { force: true })
}

async function readKeys(path: string): Promise<InstallKeys | undefined> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw broken(path, error)
  }
  try {
    return keysFile.parse(JSON.parse(text))
  } catch {
    // The cause would show the content.
    throw broken(path)
  }
}

function broken(path: string, cause?: unknown): PluginError {
  const remedy = 'Restore it; without these keys the install store of this install cannot be read.'
  return new PluginError('host_refused', `The keys of the install in ${path} cannot be read.`, remedy, cause)
}

function newKey(): string {
  return randomBytes(32).toString('base64url')
}

function keysPath(hostDir: string, installId: string): string {
  return join(hostDir, 'keys', `${installId}.json`)
}
