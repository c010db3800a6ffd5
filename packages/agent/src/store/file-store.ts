import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing, makeFolder, namesIn } from './durable-files.ts'
import type { InstallStore, StoredVersion, StoreKind } from './install-store.ts'
import {
  deriveKeys,
  hashName,
  HEADER_READ_BYTES,
  MAX_NAME_BYTES,
  openHeader,
  openRecord,
  placeOf,
  type RecordHeader,
  type RecordPlace,
  type StoreKeys,
} from './sealed-record.ts'
import {
  corrupt,
  entriesOf,
  livePlaces,
  pathOf,
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

  async function write(kind: StoreKind, name: string, body: Uint8Array, removed: boolean): Promise<number> {
    const places = await placesOf(folder, placeOf(keys, kind, name))
    const version = (places.at(-1)?.version ?? 0) + 1
    const header = { kind, name, version, at: now().toISOString(), removed }
    await prune(folder, [...places, await writeRecord(folder, keys, header, body)])
    return version
  }

  async function live(kind: StoreKind, name: string): Promise<RecordPlace[]> {
    return livePlaces(await placesOf(folder, placeOf(keys, kind, checkName(name))))
  }

  return {
    get: (kind, name) =>
      inTurn.run(async () => {
        const newest = (await live(kind, name)).at(-1)
        return newest && readBody(folder, keys, newest, describe(kind, name, newest.version))
      }),
    getVersion: (kind, name, version) =>
      inTurn.run(async () => {
        const place = (await live(kind, name)).find((candidate) => candidate.version === version)
        return place && readBody(folder, keys, place, describe(kind, name, version))
      }),
    put: (kind, name, bytes) =>
      inTurn.run(async () => ({ version: await write(kind, checkName(name), bytes, false) })),
    list: (kind) => inTurn.run(() => listKind(folder, keys, kind)),
    history: (kind, name) =>
      inTurn.run(async () => {
        const versions: StoredVersion[] = []
        for (const place of await live(kind, name)) {
          const { version, at } = await readHeader(folder, keys, place)
          versions.push({ version, at })
        }
        return versions
      }),
    remove: (kind, name) =>
      inTurn.run(async () => {
        if ((await live(kind, name)).length > 0) await write(kind, name, new Uint8Array(), true)
      }),
    close: () => inTurn.end(release),
  }
}

async function listKind(
  folder: StoreFolder,
  keys: StoreKeys,
  kind: StoreKind,
): Promise<{ name: string; version: number }[]> {
  const kindHash = hashName(keys, [kind])
  const found: { name: string; version: number }[] = []
  for (const nameHash of await namesIn(join(folder.entries, kindHash))) {
    const newest = livePlaces(await placesOf(folder, { kindHash, nameHash })).at(-1)
    if (!newest) continue
    const { name, version } = await readHeader(folder, keys, newest)
    found.push({ name, version })
  }
  return found.toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

async function readHeader(folder: StoreFolder, keys: StoreKeys, place: RecordPlace): Promise<RecordHeader> {
  const path = pathOf(folder, place)
  const file = await open(path, 'r')
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEADER_READ_BYTES), 0, HEADER_READ_BYTES, 0)
    const header = openHeader(keys, place, buffer.subarray(0, bytesRead))
    if (!header) throw changed(path)
    return header
  } finally {
    await file.close()
  }
}

async function readBody(
  folder: StoreFolder,
  keys: StoreKeys,
  place: RecordPlace,
  what: string,
): Promise<Uint8Array> {
  const path = pathOf(folder, place)
  try {
    const record = openRecord(keys, place, await readFile(path))
    if (!record) throw changed(`${what} (${path})`)
    return record.body
  } catch (cause) {
    if (isMissing(cause)) throw corrupt(`${what} (${path})`, 'it was deleted from outside')
    throw cause
  }
}

/** A crash between a write and its pruning leaves old files behind; a removed secret must not stay on disk. */
async function finishPruning(folder: StoreFolder): Promise<void> {
  for await (const entry of entriesOf(folder)) await prune(folder, await placesOf(folder, entry))
}

function checkName(name: string): string {
  const bytes = Buffer.from(name)
  // A lone surrogate has no UTF-8 form of its own and would collide with another name.
  if (bytes.length > 0 && bytes.length <= MAX_NAME_BYTES && bytes.toString() === name) return name
  throw new StoreError('store_bad_name', `A name must be 1 to ${MAX_NAME_BYTES} bytes of valid text.`)
}

function describe(kind: StoreKind, name: string, version: number): string {
  return `${kind} ${JSON.stringify(name)}, version ${version}`
}

function changed(what: string): StoreError {
  return corrupt(what, 'its bytes are not the ones that were written there; restore it from an export')
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
