import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing, namesIn } from './durable-files.ts'
import type { StoredVersion, StoreKind, StoreReader } from './install-store.ts'
import {
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
import { corrupt, livePlaces, pathOf, placesOf, type StoreFolder } from './store-folder.ts'
import { StoreError } from './store-error.ts'

/** The reading half of a store's folder; whoever uses it sees to it that nobody writes meanwhile. */
export function folderReader(folder: StoreFolder, keys: StoreKeys): StoreReader {
  async function live(kind: StoreKind, name: string): Promise<RecordPlace[]> {
    return livePlaces(await placesOf(folder, placeOf(keys, kind, checkName(name))))
  }
  return {
    async get(kind, name) {
      const newest = (await live(kind, name)).at(-1)
      return newest && readBody(folder, keys, newest, describe(kind, name, newest.version))
    },
    async getVersion(kind, name, version) {
      const place = (await live(kind, name)).find((candidate) => candidate.version === version)
      return place && readBody(folder, keys, place, describe(kind, name, version))
    },
    list: (kind) => listKind(folder, keys, kind),
    async history(kind, name) {
      const versions: StoredVersion[] = []
      for (const place of await live(kind, name)) {
        const { version, at, digest = null } = await readHeader(folder, keys, place)
        versions.push({ version, at, digest })
      }
      return versions
    },
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

export function checkName(name: string): string {
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
