import { setTimeout as pause } from 'node:timers/promises'
import { folderReader } from './folder-reader.ts'
import type { StoreReader } from './install-store.ts'
import { deriveKeys } from './sealed-record.ts'
import { checkFolder, entriesOf, placesOf, storeFolder, type StoreFolder } from './store-folder.ts'
import { StoreError } from './store-error.ts'

const ATTEMPTS = 40
const PAUSE_MS = 50

/**
 * Reads a store that another process may be writing, without its lock. Numbers of versions only grow, so files
 * that are the same before and after `read` were so at one moment between; otherwise it is read again.
 */
export async function readStore<T>(options: {
  dir: string
  key: Uint8Array
  read: (store: StoreReader) => Promise<T>
  attempts?: number
}): Promise<T> {
  const folder = storeFolder(options.dir)
  const keys = deriveKeys(options.key)
  await checkFolder(folder, keys)
  const reader = folderReader(folder, keys)
  for (let attempt = 0; attempt < (options.attempts ?? ATTEMPTS); attempt++) {
    if (attempt > 0) await pause(PAUSE_MS)
    const before = await filesOf(folder)
    const outcome = await options.read(reader).then(
      (value) => ({ ok: true as const, value }),
      (error: unknown) => ({ ok: false as const, error }),
    )
    if (before !== (await filesOf(folder))) continue
    if (outcome.ok) return outcome.value
    throw outcome.error
  }
  throw new StoreError(
    'store_busy',
    `The install store in ${options.dir} changed all the while it was read. Try again in a moment.`,
  )
}

async function filesOf(folder: StoreFolder): Promise<string> {
  const files: string[] = []
  for await (const entry of entriesOf(folder)) {
    for (const { version, removed } of await placesOf(folder, entry)) {
      files.push(`${entry.kindHash}/${entry.nameHash}/${version}/${removed}`)
    }
  }
  return files.toSorted().join('\n')
}
