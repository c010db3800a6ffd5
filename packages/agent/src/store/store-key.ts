import { randomBytes } from 'node:crypto'
import { link, open, readFile, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { hasCode, isMissing, makeFolder, syncFolder } from './durable-files.ts'
import { StoreError } from './store-error.ts'

/**
 * The 32 bytes that encrypt the install store: `env` (base64, for a secret manager) wins over `file`
 * (base64, readable by its owner alone). With `create` a missing file is made.
 */
export async function loadStoreKey(options: {
  file: string
  env?: string | undefined
  create?: boolean
}): Promise<Uint8Array> {
  if (options.env) return decodeKey(options.env, 'the store key in the environment')
  const key = await readKeyFile(options.file)
  if (key) return key
  if (!options.create) {
    throw new StoreError(
      'key_missing',
      `There is no store key at ${options.file}. Name the file that the agent uses with TENON_STORE_KEY_FILE; without the key of this install the store cannot be read.`,
    )
  }
  await makeKeyFile(options.file)
  const made = await readKeyFile(options.file)
  if (!made) throw new StoreError('key_missing', `The store key at ${options.file} vanished as it was made.`)
  return made
}

async function readKeyFile(file: string): Promise<Uint8Array | undefined> {
  try {
    const { mode } = await stat(file)
    if ((mode & 0o077) !== 0) {
      throw new StoreError(
        'key_exposed',
        `Others than its owner may use the store key at ${file}. Run: chmod 600 ${file}`,
      )
    }
    return decodeKey(await readFile(file, 'utf8'), file)
  } catch (cause) {
    if (isMissing(cause)) return undefined
    throw cause
  }
}

/** Linked into place whole, and never over a key that is there: losing one loses the store. */
async function makeKeyFile(file: string): Promise<void> {
  await makeFolder(dirname(file))
  const draft = `${file}.${randomBytes(8).toString('hex')}`
  try {
    const handle = await open(draft, 'wx', 0o600)
    try {
      await handle.writeFile(`${randomBytes(32).toString('base64')}\n`)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await link(draft, file).catch((cause: unknown) => {
      if (!hasCode(cause, 'EEXIST')) throw cause
    })
  } finally {
    await rm(draft, { force: true })
  }
  await syncFolder(dirname(file))
}

function decodeKey(text: string, where: string): Uint8Array {
  const trimmed = text.trim()
  const bytes = Buffer.from(trimmed, 'base64')
  if (bytes.length === 32 && bytes.toString('base64') === trimmed) return new Uint8Array(bytes)
  throw new StoreError('key_malformed', `What is in ${where} is not a key: it must be 32 bytes in base64.`)
}
