import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FetchedManifest } from '../client/client.ts'
import { OciError } from '../errors.ts'
import { MAX_MANIFEST_BYTES, mediaTypes, parseManifest, referrerDescriptor } from '../manifest.ts'
import type { Descriptor } from '../manifest.ts'
import type { Digest } from '../reference.ts'
import { unlessMissing, writeFileDurably } from '../storage/durable-file.ts'

export const REF_NAME = 'org.opencontainers.image.ref.name'

/** What `index.json` lists; nothing when there is none yet. */
export const readEntries = async (root: string): Promise<Descriptor[]> => {
  const bytes = await unlessMissing(readFile(join(root, 'index.json')))
  if (bytes === undefined) return []
  if (bytes.byteLength > MAX_MANIFEST_BYTES)
    throw new OciError('TOO_LARGE', "The layout's index is too large")
  return parseManifest(mediaTypes.index, bytes).manifests
}

/** Refuses a folder that is no layout, or one of a version that is not known here. */
export const requireLayout = async (root: string): Promise<void> => {
  const text = await unlessMissing(readFile(join(root, 'oci-layout'), 'utf8'))
  if (text !== undefined && /"imageLayoutVersion"\s*:\s*"1\./.test(text.slice(0, 1000))) return
  throw new OciError('ARCHIVE_REFUSED', `${root} is no OCI image layout of version 1`)
}

/** The entry with that digest or name. */
export const entryOf = (entries: Descriptor[], reference: string): Descriptor | undefined =>
  entries.find((entry) => entry.digest === reference) ??
  entries.find((entry) => entry.annotations?.[REF_NAME] === reference)

/** Pure: the entry that is meant; without a reference there must be exactly one that is no referrer. */
export const chooseEntry = (entries: Descriptor[], reference: string | undefined): Descriptor => {
  const found = reference === undefined ? undefined : entryOf(entries, reference)
  if (found !== undefined) return found
  const [only, ...others] = entries.filter((entry) => entry.annotations?.[IS_REFERRER] !== 'true')
  if (reference === undefined && only !== undefined && others.length === 0) return only
  const names = entries.map((entry) => entry.annotations?.[REF_NAME] ?? entry.digest)
  throw new OciError(
    'NOT_FOUND',
    `Name one entry of the layout: ${names.slice(0, 20).join(', ') || 'it has none'}`,
  )
}

/** Makes a manifest an entry, beside those that are there already. */
export const writeEntries = async (root: string, added: Descriptor[]): Promise<void> => {
  const names = new Set(
    added.map((entry) => entry.annotations?.[REF_NAME]).filter((name) => name !== undefined),
  )
  const digests = new Set(added.map((entry) => entry.digest))
  const kept = (await readEntries(root)).filter(
    (entry) => !digests.has(entry.digest) && !names.has(entry.annotations?.[REF_NAME] ?? ''),
  )
  const index = { schemaVersion: 2, mediaType: mediaTypes.index, manifests: [...kept, ...added] }
  await mkdir(root, { recursive: true })
  const write = (name: string, value: object): Promise<void> =>
    writeFileDurably(root, join(root, name), Buffer.from(JSON.stringify(value)))
  await write('oci-layout', { imageLayoutVersion: '1.0.0' })
  await write('index.json', index)
}

export const entryFor = (info: Descriptor, tag: string | undefined): Descriptor => ({
  mediaType: info.mediaType,
  digest: info.digest,
  size: info.size,
  ...(tag === undefined ? {} : { annotations: { [REF_NAME]: tag } }),
})

/** Marks an entry that is there for its subject's sake only. */
export const referrerEntry = (info: Descriptor): Descriptor => ({
  ...entryFor(info, undefined),
  annotations: { [IS_REFERRER]: 'true' },
})

export const subjectOf = (fetched: FetchedManifest, subject: Digest): Descriptor | undefined => {
  const manifest = parseManifest(fetched.mediaType, fetched.bytes)
  if (manifest.subject?.digest !== subject) return undefined
  return referrerDescriptor(manifest, fetched.digest, fetched.size)
}

const IS_REFERRER = 'dev.tenon.referrer'
