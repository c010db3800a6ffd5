import { open, readdir, readFile, rm, stat, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { verifyBytes } from '../digest.ts'
import { OciError } from '../errors.ts'
import type { Descriptor } from '../manifest.ts'
import { isDigest, isTag } from '../reference.ts'
import type { Digest } from '../reference.ts'
import {
  ensureFolder,
  exists,
  publishFile,
  storageError,
  syncFolder,
  unlessMissing,
  writeFileDurably,
} from './durable-file.ts'
import { digestName, fileLayout } from './file-layout.ts'
import type { FileLayout, ManifestMark } from './file-layout.ts'
import { createFileUpkeep } from './file-upkeep.ts'
import { createFileUploads } from './file-uploads.ts'
import type { ByteRange, PutManifestOptions, Storage, StoredManifest } from './storage.ts'

export interface FileStorageOptions {
  clock?: () => number
  /** Uploads and temporary files untouched for this long are removed at start. */
  staleAfterMs?: number
}

export const createFileStorage = async (dir: string, options: FileStorageOptions = {}): Promise<Storage> => {
  const paths = fileLayout(dir)
  for (const folder of [paths.temporary, paths.uploads, paths.repositories, paths.blobs])
    await ensureFolder(folder)
  const uploads = createFileUploads(paths.uploads, paths.temporary)
  const clock = options.clock ?? Date.now
  const upkeep = createFileUpkeep(paths, uploads)
  await upkeep.removeStaleUploads(clock() - (options.staleAfterMs ?? DAY_MS))

  const mark = (file: string, content = ''): Promise<void> =>
    writeFileDurably(paths.temporary, file, Buffer.from(content))

  return {
    statBlob: async (repository, digest) => {
      const held = await renewed(paths.blobLink(repository, digest), clock())
      const found = held === undefined ? undefined : await renewed(paths.content(digest), clock())
      return found === undefined ? undefined : { size: found.size }
    },
    openBlob: (repository, digest, range) => openBlob(paths, repository, digest, range),
    mountBlob: async (from, to, digest) => {
      if (!(await exists(paths.blobLink(from, digest)))) return false
      await mark(paths.blobLink(to, digest))
      if ((await renewed(paths.content(digest), clock())) !== undefined) return true
      await removeMark(paths.blobLink(to, digest))
      return false
    },
    deleteBlob: (repository, digest) => removeMark(paths.blobLink(repository, digest)),
    createUpload: (repository) => uploads.create(repository),
    uploadSize: (repository, id) => uploads.size(repository, id),
    appendUpload: (repository, id, offset, source) => uploads.append(repository, id, offset, source),
    commitUpload: async (repository, id, digest) => {
      const file = await uploads.seal(repository, id, digest)
      try {
        await publishFile(file, paths.content(digest))
        await mark(paths.blobLink(repository, digest))
      } catch (error) {
        await rm(file, { force: true })
        throw storageError(error)
      } finally {
        await uploads.remove(repository, id)
      }
    },
    cancelUpload: (repository, id) => uploads.remove(repository, id),
    putManifest: (repository, manifest, put) => putManifest(paths, mark, repository, manifest, put ?? {}),
    statManifest: (repository, digest) => readMark(paths, repository, digest),
    getManifest: (repository, digest) => getManifest(paths, repository, digest),
    deleteManifest: (repository, digest) => deleteManifest(paths, repository, digest),
    listReferrers: (repository, subject) => listReferrers(paths, repository, subject),
    resolveTag: (repository, tag) => resolveTag(paths, repository, tag),
    listTags: async (repository) => {
      if (!(await exists(paths.repository(repository)))) return undefined
      return readTags(paths, repository)
    },
    deleteTag: (repository, tag) => removeMark(paths.tag(repository, tag)),
    upkeep,
  }
}

const DAY_MS = 24 * 60 * 60 * 1000
const READ_BYTES = 512 * 1024
const RENEW_AFTER_MS = 1000

type Mark = (file: string, content?: string) => Promise<void>

async function openBlob(
  paths: FileLayout,
  repository: string,
  digest: Digest,
  range: ByteRange | undefined,
): Promise<Readable> {
  const isHeld = await exists(paths.blobLink(repository, digest))
  const found = isHeld ? await unlessMissing(open(paths.content(digest), 'r')) : undefined
  if (found === undefined) throw new OciError('NOT_FOUND', `The repository holds no blob ${digest}`)
  return found.createReadStream({ ...range, highWaterMark: READ_BYTES })
}

/** The tag comes last: whoever sees it finds everything behind it. */
const putManifest = async (
  paths: FileLayout,
  mark: Mark,
  repository: string,
  manifest: StoredManifest,
  options: PutManifestOptions,
): Promise<void> => {
  const { digest, mediaType, bytes } = manifest
  verifyBytes(bytes, digest)
  await writeFileDurably(paths.temporary, paths.content(digest), bytes)
  const { referrer, tag } = options
  const content: ManifestMark = {
    mediaType,
    size: bytes.byteLength,
    ...(referrer === undefined ? {} : { referrerOf: referrer.subject }),
  }
  await mark(paths.manifest(repository, digest), JSON.stringify(content))
  if (referrer !== undefined) {
    const file = join(paths.referrers(repository, referrer.subject), digestName(digest))
    await mark(file, JSON.stringify(referrer.descriptor))
  }
  if (tag !== undefined) await mark(paths.tag(repository, tag), digest)
}

async function getManifest(
  paths: FileLayout,
  repository: string,
  digest: Digest,
): Promise<StoredManifest | undefined> {
  const found = await readMark(paths, repository, digest)
  if (found === undefined) return undefined
  const bytes = await unlessMissing(readFile(paths.content(digest)))
  if (bytes === undefined) return undefined
  verifyBytes(bytes, digest)
  return { digest, mediaType: found.mediaType, bytes }
}

const readMark = async (
  paths: FileLayout,
  repository: string,
  digest: Digest,
): Promise<ManifestMark | undefined> => {
  const text = await unlessMissing(readFile(paths.manifest(repository, digest), 'utf8'))
  return text === undefined ? undefined : (JSON.parse(text) as ManifestMark)
}

const deleteManifest = async (paths: FileLayout, repository: string, digest: Digest): Promise<boolean> => {
  const found = await readMark(paths, repository, digest)
  if (found === undefined) return false
  for (const tag of await readTags(paths, repository)) {
    if ((await resolveTag(paths, repository, tag)) === digest) await removeMark(paths.tag(repository, tag))
  }
  if (found.referrerOf !== undefined) {
    await removeMark(join(paths.referrers(repository, found.referrerOf), digestName(digest)))
  }
  return removeMark(paths.manifest(repository, digest))
}

const listReferrers = async (
  paths: FileLayout,
  repository: string,
  subject: Digest,
): Promise<Descriptor[]> => {
  const folder = paths.referrers(repository, subject)
  const names = ((await unlessMissing(readdir(folder))) ?? []).toSorted()
  const texts = await Promise.all(names.map((name) => unlessMissing(readFile(join(folder, name), 'utf8'))))
  return texts.filter((text) => text !== undefined).map((text) => JSON.parse(text) as Descriptor)
}

const resolveTag = async (
  paths: FileLayout,
  repository: string,
  tag: string,
): Promise<Digest | undefined> => {
  const text = await unlessMissing(readFile(paths.tag(repository, tag), 'utf8'))
  return text !== undefined && isDigest(text) ? text : undefined
}

const readTags = async (paths: FileLayout, repository: string): Promise<string[]> =>
  ((await unlessMissing(readdir(paths.tags(repository)))) ?? []).filter(isTag).toSorted()

const removeMark = async (file: string): Promise<boolean> => {
  if (!(await exists(file))) return false
  await rm(file, { force: true })
  await syncFolder(dirname(file))
  return true
}

/**
 * Who asks for a blob may be about to push a manifest that names it, so garbage collection must see it as
 * fresh from here on. A file that goes away in between counts as missing.
 */
const renewed = async (file: string, now: number): Promise<{ size: number } | undefined> => {
  const found = await unlessMissing(stat(file))
  if (found === undefined || now - found.mtimeMs < RENEW_AFTER_MS) return found
  const time = new Date(now)
  const touched = await unlessMissing(utimes(file, time, time).then(() => true))
  return touched === undefined ? undefined : found
}
