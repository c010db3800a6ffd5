import { createHash, randomBytes } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { isOciError, OciError } from '../errors.ts'
import { digestAlgorithm } from '../reference.ts'
import type { Digest, DigestAlgorithm } from '../reference.ts'
import { hashFile, joinParts, partName, readParts, sizeOf } from './upload-parts.ts'
import type { SealedFile } from './upload-parts.ts'
import { createTurns } from './upload-turns.ts'
import type { Writer } from './upload-turns.ts'
import { errnoOf, exists, storageError, syncFolder, temporaryName, unlessMissing } from './durable-file.ts'

/**
 * An upload is a folder of parts, each named by its offset and created exclusively by the request that
 * writes it, so no two processes ever write one file. A part that this process alone wrote is published
 * by its name with the hash that ran along; anything else is copied and hashed again.
 */
export interface FileUploads {
  create(repository: string): Promise<string>
  size(repository: string, id: string): Promise<number>
  append(
    repository: string,
    id: string,
    offset: number | undefined,
    source: AsyncIterable<Uint8Array>,
  ): Promise<number>
  /** A synced file with exactly the content of `digest`, for the caller to move away. */
  seal(repository: string, id: string, digest: Digest): Promise<string>
  remove(repository: string, id: string): Promise<void>
  /** Uploads of the repository, or of all. */
  list(repository?: string): Promise<StoredUpload[]>
}

export interface StoredUpload {
  path: string
  bytes: number
  touchedAt: number
}

export const createFileUploads = (folder: string, temporaryFolder: string): FileUploads => {
  const state: State = { folder, temporaryFolder, own: new Map() }
  const turns = createTurns()

  const exclusively = async <T>(
    repository: string,
    id: string,
    work: (writer: Writer) => Promise<T>,
  ): Promise<T> => {
    try {
      return await turns.take(id, work)
    } catch (error) {
      const failure = storageError(error)
      // A full disk gets back at once what can hardly be finished; the client starts again later.
      if (isOciError(failure, 'STORAGE_FULL')) await drop(state, repository, id)
      throw failure
    }
  }

  return {
    create: async (repository) => {
      const id = randomBytes(16).toString('hex')
      await makeFolder(join(folder, folderName(repository, id)), folder)
      return id
    },
    size: async (repository, id) => sizeOf(await readParts(await folderOf(folder, repository, id))),
    append: (repository, id, offset, source) =>
      exclusively(repository, id, (writer) => append(state, repository, id, offset, writer.until(source))),
    seal: (repository, id, digest) => exclusively(repository, id, () => seal(state, repository, id, digest)),
    remove: (repository, id) => remove(state, repository, id),
    list: (repository) => listUploads(folder, repository),
  }
}

const MAX_REMEMBERED = 1000

interface State {
  folder: string
  temporaryFolder: string
  own: Map<string, OwnPart>
}

interface OwnPart {
  hash: Hash
  size: number
}

async function append(
  { folder, own }: State,
  repository: string,
  id: string,
  offset: number | undefined,
  chunks: AsyncIterable<Uint8Array>,
): Promise<number> {
  const path = await folderOf(folder, repository, id)
  const size = sizeOf(await readParts(path))
  if (offset !== undefined && offset !== size) {
    throw new OciError('RANGE_INVALID', `The upload goes on at byte ${size}, not ${offset}`)
  }
  const mine = own.get(id)
  if (mine !== undefined && mine.size === size)
    return appendOwn(own, id, mine, join(path, partName(0)), chunks)
  return appendNew(own, id, path, size, chunks)
}

async function seal(state: State, repository: string, id: string, digest: Digest): Promise<string> {
  const path = await folderOf(state.folder, repository, id)
  const parts = await readParts(path)
  const mine = state.own.get(id)
  const isMine = mine !== undefined && parts.length === 1 && mine.size === sizeOf(parts)
  const sealed = isMine
    ? await sealOwn(mine, join(path, partName(0)), digestAlgorithm(digest))
    : await joinParts(path, parts, temporaryName(state.temporaryFolder), digestAlgorithm(digest))
  if (sealed.digest !== digest) {
    await rm(sealed.file, { force: true })
    await remove(state, repository, id)
    throw new OciError(
      'DIGEST_MISMATCH',
      `The upload is ${sealed.digest}, not ${digest}; it was removed, send it again`,
    )
  }
  await syncFile(sealed.file)
  return sealed.file
}

async function remove(state: State, repository: string, id: string): Promise<void> {
  await folderOf(state.folder, repository, id)
  await drop(state, repository, id)
}

async function drop({ folder, own }: State, repository: string, id: string): Promise<void> {
  own.delete(id)
  await rm(join(folder, folderName(repository, id)), { recursive: true, force: true })
}

async function folderOf(folder: string, repository: string, id: string): Promise<string> {
  const path = join(folder, folderName(repository, id))
  if (/^[0-9a-f]{32}$/.test(id) && (await exists(path))) return path
  throw new OciError('UPLOAD_UNKNOWN', 'The upload is unknown, finished or expired; start a new one')
}

/** The name binds an upload to its repository: its id is of no use through another. */
const folderName = (repository: string, id: string): string =>
  `${id}-${createHash('sha256').update(repository).digest('hex').slice(0, 32)}`

const makeFolder = async (path: string, parent: string): Promise<void> => {
  try {
    await mkdir(path)
    await syncFolder(parent)
  } catch (error) {
    throw storageError(error)
  }
}

const appendOwn = async (
  own: Map<string, OwnPart>,
  id: string,
  mine: OwnPart,
  file: string,
  source: AsyncIterable<Uint8Array>,
): Promise<number> => {
  const handle = await open(file, 'r+')
  try {
    return await writeAll(own, id, mine, handle, source)
  } finally {
    await handle.close()
  }
}

const appendNew = async (
  own: Map<string, OwnPart>,
  id: string,
  path: string,
  offset: number,
  source: AsyncIterable<Uint8Array>,
): Promise<number> => {
  const handle = await openPart(join(path, partName(offset)))
  const mine = { hash: createHash('sha256'), size: 0 }
  if (offset === 0) remember(own, id, mine)
  try {
    return offset + (await writeAll(own, id, mine, handle, source))
  } finally {
    await handle.close()
  }
}

/** Forgetting the oldest costs that upload a copy when it is sealed, nothing else. */
const remember = (own: Map<string, OwnPart>, id: string, mine: OwnPart): void => {
  const oldest = own.size < MAX_REMEMBERED ? undefined : own.keys().next().value
  if (oldest !== undefined) own.delete(oldest)
  own.set(id, mine)
}

/** An empty part is what a writer left that died before its first byte. */
const openPart = async (file: string): Promise<FileHandle> => {
  try {
    return await open(file, 'wx')
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST' || (await stat(file)).size > 0) throw error
    await rm(file, { force: true })
    return open(file, 'wx')
  }
}

const writeAll = async (
  own: Map<string, OwnPart>,
  id: string,
  mine: OwnPart,
  handle: FileHandle,
  source: AsyncIterable<Uint8Array>,
): Promise<number> => {
  for await (const chunk of source) {
    const written = writeAt(handle, chunk, mine.size)
    // While it is being written; a hash of what could not be written is forgotten.
    mine.hash.update(chunk)
    mine.size += chunk.byteLength
    try {
      await written
    } catch (error) {
      own.delete(id)
      throw error
    }
  }
  return mine.size
}

const writeAt = async (handle: FileHandle, chunk: Uint8Array, position: number): Promise<void> => {
  for (let done = 0; done < chunk.byteLength;) {
    const { bytesWritten } = await handle.write(chunk, done, chunk.byteLength - done, position + done)
    done += bytesWritten
  }
}

/** The algorithm is told last; the hash that ran along is of the one that nearly all clients use. */
const sealOwn = async (mine: OwnPart, file: string, algorithm: DigestAlgorithm): Promise<SealedFile> =>
  algorithm === 'sha256'
    ? { file, digest: `sha256:${mine.hash.copy().digest('hex')}` }
    : hashFile(file, algorithm)

const syncFile = async (file: string): Promise<void> => {
  const handle = await open(file, 'r+')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const listUploads = async (folder: string, repository: string | undefined): Promise<StoredUpload[]> => {
  const suffix = repository === undefined ? '' : folderName(repository, '')
  const names = (await readdir(folder)).filter((name) => name.endsWith(suffix))
  return Promise.all(names.map((name) => statUpload(join(folder, name))))
}

const statUpload = async (path: string): Promise<StoredUpload> => {
  const inside = (await unlessMissing(readdir(path))) ?? []
  const files = await Promise.all(
    [path, ...inside.map((file) => join(path, file))].map((each) => unlessMissing(stat(each))),
  )
  const [, ...parts] = files
  return {
    path,
    bytes: parts.reduce((sum, part) => sum + (part?.size ?? 0), 0),
    touchedAt: Math.max(0, ...files.map((file) => file?.mtimeMs ?? 0)),
  }
}
