import { makeFolder } from './durable-files.ts'
import { checkName, folderReader } from './folder-reader.ts'
import type { InstallStore, StoreKind } from './install-store.ts'
import { deriveKeys, placeOf, type StoreKeys } from './sealed-record.ts'
import {
  entriesOf,
  placesOf,
  prepareFolder,
  prune,
  storeFolder,
  writeRecord,
  type StoreFolder,
} from './store-folder.ts'
import { StoreError } from './store-error.ts'
import { lockFolder } from './store-lock.ts'

/** The store in a folder of files, each encrypted and bound to its place. One process at a time. */
export async function openInstallStore(options: {
  dir: string
  key: Uint8Array
  now?: () => Date
}): Promise<InstallStore> {
  const keys = deriveKeys(options.key)
  const folder = storeFolder(options.dir)
  await makeFolder(folder.dir)
  const release = await lockFolder(folder.dir)
  try {
    await prepareFolder(folder, keys)
    await finishPruning(folder)
  } catch (cause) {
    await release()
    throw cause
  }
  return fileStore({ folder, keys, release, now: options.now ?? (() => new Date()) })
}

interface Opened {
  folder: StoreFolder
  keys: StoreKeys
  release: () => Promise<void>
  now: () => Date
}

function fileStore({ folder, keys, release, now }: Opened): InstallStore {
  const inTurn = oneAtATime()
  const reader = folderReader(folder, keys)

  async function write(kind: StoreKind, name: string, body: Uint8Array, removed: boolean): Promise<number> {
    const places = await placesOf(folder, placeOf(keys, kind, name))
    const version = (places.at(-1)?.version ?? 0) + 1
    const header = { kind, name, version, at: now().toISOString(), removed }
    await prune(folder, [...places, await writeRecord(folder, keys, header, body)])
    return version
  }

  return {
    get: (kind, name) => inTurn.run(() => reader.get(kind, name)),
    getVersion: (kind, name, version) => inTurn.run(() => reader.getVersion(kind, name, version)),
    put: (kind, name, bytes) =>
      inTurn.run(async () => ({ version: await write(kind, checkName(name), bytes, false) })),
    list: (kind) => inTurn.run(() => reader.list(kind)),
    history: (kind, name) => inTurn.run(() => reader.history(kind, name)),
    remove: (kind, name) =>
      inTurn.run(async () => {
        if ((await reader.history(kind, name)).length > 0) await write(kind, name, new Uint8Array(), true)
      }),
    close: () => inTurn.end(release),
  }
}

/** A crash between a write and its pruning leaves old files behind; a removed secret must not stay on disk. */
async function finishPruning(folder: StoreFolder): Promise<void> {
  for await (const entry of entriesOf(folder)) await prune(folder, await placesOf(folder, entry))
}

/** Runs tasks one after the other; after `end` no new one is taken. */
function oneAtATime() {
  let last: Promise<unknown> = Promise.resolve()
  let ended: Promise<void> | undefined
  return {
    run<T>(task: () => Promise<T>): Promise<T> {
      if (ended) return Promise.reject(new StoreError('store_closed', 'The install store is closed.'))
      const result = last.then(task)
      last = result.catch(() => undefined)
      return result
    },
    end(finish: () => Promise<void>): Promise<void> {
      ended ??= last.then(finish)
      return ended
    },
  }
}
