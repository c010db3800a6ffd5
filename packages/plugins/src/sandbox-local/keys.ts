import { randomBytes } from 'node:crypto'
import { link, mkdir, open, readFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { PluginError } from '../sdk/errors.ts'

const keysFile = z.strictObject({
  registry: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
  store: z.string().regex(/^[A-Za-z0-9+/]{43}=$/),
})

/** 32 random bytes each, as their readers want them: the registry as base64url, the install store as base64. */
export type InstallKeys = z.infer<typeof keysFile>

/** Kept on the customer's machine alone, beside the install they open, and made exactly once. */
export async function ensureKeys(hostDir: string, installId: string): Promise<InstallKeys> {
  const path = keysPath(hostDir, installId)
  const known = await readKeys(path)
  if (known) return known
  await makeKeys(path).catch((cause: unknown) => {
    const message = `The keys of the install cannot be kept in ${hostDir}: ${messageOf(cause)}.`
    throw new PluginError('host_refused', message, 'Let the sandbox job write to that folder.', cause)
  })
  const kept = await readKeys(path)
  if (kept) return kept
  throw broken(path)
}

async function makeKeys(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const made = { registry: randomBytes(32).toString('base64url'), store: randomBytes(32).toString('base64') }
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

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function keysPath(hostDir: string, installId: string): string {
  return join(hostDir, 'keys', `${installId}.json`)
}
