import { timingSafeEqual } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { sha256 } from '../ground/crypto.ts'
import { isMissing, makeFolder, namesIn, removeDurably, writeDurably } from './durable-files.ts'
import { KEPT_VERSIONS } from './install-store.ts'
import { placeOf, sealRecord, type RecordHeader, type RecordPlace, type StoreKeys } from './sealed-record.ts'
import { StoreError } from './store-error.ts'

/** The folder: `entries/<kind>/<name>/<version>[.removed]`, `tmp/`, `lock`, and the two marks. */
export interface StoreFolder {
  dir: string
  entries: string
  tmp: string
  /** Format and key id. */
  mark: string
  /** There while a restore is under way, or was cut short. */
  restoring: string
}

export function storeFolder(dir: string): StoreFolder {
  return {
    dir,
    entries: join(dir, 'entries'),
    tmp: join(dir, 'tmp'),
    mark: join(dir, 'store.json'),
    restoring: join(dir, 'restoring'),
  }
}

/** Makes the folder when it is new; otherwise makes sure that this is the key it was made with. */
export async function prepareFolder(folder: StoreFolder, keys: StoreKeys): Promise<void> {
  const mark = await readMark(folder)
  if (mark === undefined && !(await isRestoring(folder))) {
    if (await holdsRecords(folder)) throw corrupt(folder.mark, 'it is missing; restore an export')
    await makeFolder(folder.tmp)
    await writeMark(folder, keys)
  }
  await checkFolder(folder, keys)
  await makeFolder(folder.entries)
  await rm(folder.tmp, { recursive: true, force: true })
  await makeFolder(folder.tmp)
}

/** Changes nothing: the folder is a whole store, made with this key. */
export async function checkFolder(folder: StoreFolder, keys: StoreKeys): Promise<void> {
  if (await isRestoring(folder)) throw corrupt(folder.dir, 'a restore was cut short; run it again')
  const mark = await readMark(folder)
  if (mark === undefined) throw corrupt(folder.mark, 'it is missing; restore an export')
  if (!sameText(mark, keys.keyId)) {
    throw new StoreError(
      'store_wrong_key',
      `The install store in ${folder.dir} was made with key ${mark}, not with ${keys.keyId}. Give it the key it was made with.`,
    )
  }
}

export async function writeMark(folder: StoreFolder, keys: StoreKeys): Promise<void> {
  const text = `${JSON.stringify({ format: 1, keyId: keys.keyId })}\n`
  await writeDurably(folder.tmp, folder.mark, Buffer.from(text))
}

async function readMark(folder: StoreFolder): Promise<string | undefined> {
  let text: string
  try {
    text = await readFile(folder.mark, 'utf8')
  } catch (cause) {
    if (isMissing(cause)) return undefined
    throw cause
  }
  const keyId = /^\{"format":1,"keyId":"([0-9a-f]{16})"\}\n$/.exec(text)?.[1]
  if (!keyId) throw corrupt(folder.mark, 'it is not the mark of a store of this version')
  return keyId
}

export async function isRestoring(folder: StoreFolder): Promise<boolean> {
  return (await namesIn(folder.dir)).includes(basename(folder.restoring))
}

export async function holdsRecords(folder: StoreFolder): Promise<boolean> {
  for await (const names of entriesOf(folder)) if ((await placesOf(folder, names)).length > 0) return true
  return false
}

export async function clearFolder(folder: StoreFolder): Promise<void> {
  await removeDurably([folder.mark])
  await rm(folder.entries, { recursive: true, force: true })
  await makeFolder(folder.entries)
}

export async function* entriesOf(
  folder: StoreFolder,
): AsyncGenerator<{ kindHash: string; nameHash: string }> {
  for (const kindHash of await namesIn(folder.entries)) {
    for (const nameHash of await namesIn(join(folder.entries, kindHash))) yield { kindHash, nameHash }
  }
}

/** The files of one name, oldest first. */
export async function placesOf(
  folder: StoreFolder,
  at: { kindHash: string; nameHash: string },
): Promise<RecordPlace[]> {
  const names = await namesIn(join(folder.entries, at.kindHash, at.nameHash))
  const places = names.flatMap((file) => {
    const match = /^([1-9][0-9]{0,14})(\.removed)?$/.exec(file)
    return match ? [{ ...at, version: Number(match[1]), removed: match[2] !== undefined }] : []
  })
  return places.toSorted((a, b) => a.version - b.version)
}

/** Those that count: what is newer than the last removal, as far as it is kept. Pure. */
export function livePlaces(places: readonly RecordPlace[]): RecordPlace[] {
  const removal = places.findLastIndex((place) => place.removed)
  return places.slice(removal + 1).slice(-KEPT_VERSIONS)
}

/** Erases what no longer counts; the newest file stays even as a removal, so that versions only grow. */
export async function prune(folder: StoreFolder, places: readonly RecordPlace[]): Promise<void> {
  const keep = new Set([...livePlaces(places), ...places.slice(-1)])
  const gone = places.filter((place) => !keep.has(place))
  if (gone.length > 0) await removeDurably(gone.map((place) => pathOf(folder, place)))
}

export async function writeRecord(
  folder: StoreFolder,
  keys: StoreKeys,
  header: RecordHeader,
  body: Uint8Array,
): Promise<RecordPlace> {
  const { version, removed } = header
  const place = { ...placeOf(keys, header.kind, header.name), version, removed }
  await makeFolder(join(folder.entries, place.kindHash, place.nameHash))
  const digest = `sha256:${sha256(body)}`
  await writeDurably(folder.tmp, pathOf(folder, place), sealRecord(keys, { ...header, digest }, body))
  return place
}

export function pathOf(folder: StoreFolder, place: RecordPlace): string {
  const file = place.removed ? `${place.version}.removed` : String(place.version)
  return join(folder.entries, place.kindHash, place.nameHash, file)
}

export function corrupt(what: string, why: string): StoreError {
  return new StoreError('store_corrupt', `The install store is damaged at ${what}: ${why}.`)
}

function sameText(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b))
}
