import { constants } from 'node:fs'
import { mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'
import type { GetBlobOptions } from '../client/blob-download.ts'
import type { FetchedManifest } from '../client/client.ts'
import type { ArtifactStore } from '../copy/copy-artifact.ts'
import { createContentCheck, digestOf, verifyBytes } from '../digest.ts'
import type { ContentCheck } from '../digest.ts'
import { OciError } from '../errors.ts'
import { isManifestMediaType, MAX_MANIFEST_BYTES } from '../manifest.ts'
import type { Descriptor } from '../manifest.ts'
import { digestAlgorithm, digestHex, isDigest, parseDigest } from '../reference.ts'
import type { Digest } from '../reference.ts'
import { isMissing, storageError, temporaryName, unlessMissing } from '../storage/durable-file.ts'
import { entryOf, readEntries, subjectOf } from './layout-index.ts'

/**
 * A folder in OCI's image layout as one side of a copy. It has no repositories, so their names are ignored;
 * manifests become its entries only when `writeEntries` says so.
 */
export const createLayoutStore = (dir: string): ArtifactStore => {
  const root = resolve(dir)
  const getManifest = (reference: string): Promise<FetchedManifest> => readManifest(root, reference)
  return {
    origin: pathToFileURL(root).href,
    getManifest: (_repository, reference) => getManifest(reference),
    headManifest: async (_repository, reference) => {
      if (!isDigest(reference) || !(await hasBlob(root, reference))) return undefined
      const { digest, mediaType, size } = await getManifest(reference)
      return { digest, mediaType, size }
    },
    putManifest: async (_repository, reference, mediaType, bytes) => {
      const digest = digestOf(isDigest(reference) ? digestAlgorithm(reference) : 'sha256', bytes)
      await writeBlob(root, digest, bytes.byteLength, Readable.from([bytes]))
      return { digest, mediaType, size: bytes.byteLength }
    },
    getBlob: async (_repository, digest, options = {}) => readBlob(root, digest, options),
    hasBlob: (_repository, digest) => hasBlob(root, digest),
    putBlob: async (_repository, digest, size, source) => {
      const stream =
        source instanceof Uint8Array
          ? Readable.from([source])
          : source instanceof Readable
            ? source
            : await source(0)
      await writeBlob(root, digest, size, stream)
    },
    mountBlob: async () => false,
    listReferrers: (_repository, subject, options = {}) => listReferrers(root, subject, options.artifactType),
  }
}

const READ_BYTES = 256 * 1024

const blobPath = (root: string, digest: Digest): string =>
  join(root, 'blobs', digestAlgorithm(parseDigest(digest)), digestHex(digest))

const hasBlob = async (root: string, digest: Digest): Promise<boolean> =>
  (await unlessMissing(stat(blobPath(root, digest))))?.isFile() ?? false

/** Links are not followed: a layout from elsewhere must not read other files of this machine. */
const openBlob = async (root: string, digest: Digest) => {
  try {
    return await open(blobPath(root, digest), constants.O_RDONLY | constants.O_NOFOLLOW)
  } catch (cause) {
    if (!isMissing(cause))
      throw new OciError('ARCHIVE_REFUSED', `The layout's ${digest} is no file`, { cause })
    throw new OciError('NOT_FOUND', `The layout holds no blob ${digest}`, { cause })
  }
}

const readBlob = async (root: string, digest: Digest, options: GetBlobOptions) => {
  const handle = await openBlob(root, digest)
  const { size } = await handle.stat()
  const { offset = 0, size: expected = size } = options
  if (size !== expected) {
    await handle.close()
    throw new OciError('SIZE_MISMATCH', `The layout's ${digest} has ${size} bytes, not ${expected}`)
  }
  const source = handle.createReadStream({ start: offset, highWaterMark: READ_BYTES })
  const check = offset === 0 ? createContentCheck({ digest, size }) : undefined
  const stream = Readable.from(checked(source, check, options.onChunk), {
    objectMode: false,
    highWaterMark: READ_BYTES,
  })
  stream.once('close', () => source.destroy())
  return { size, stream }
}

async function* checked(
  source: Readable,
  check: ContentCheck | undefined,
  onChunk: GetBlobOptions['onChunk'],
): AsyncGenerator<Buffer> {
  for await (const chunk of source as AsyncIterable<Buffer>) {
    check?.update(chunk)
    await onChunk?.(chunk.byteLength)
    yield chunk
  }
  check?.finish()
}

/** Under a temporary name until it is whole and right. */
const writeBlob = async (root: string, digest: Digest, size: number, source: Readable): Promise<void> => {
  const target = blobPath(root, digest)
  await mkdir(dirname(target), { recursive: true })
  const temporary = temporaryName(root)
  const check = createContentCheck({ digest, size })
  try {
    const handle = await open(temporary, 'wx')
    try {
      for await (const chunk of source as AsyncIterable<Buffer>) {
        check.update(chunk)
        await handle.appendFile(chunk)
      }
      check.finish()
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(temporary, target)
  } catch (error) {
    source.destroy()
    await rm(temporary, { force: true })
    throw storageError(error)
  }
}

const readManifest = async (root: string, reference: string): Promise<FetchedManifest> => {
  const entries = await readEntries(root)
  const entry = entryOf(entries, reference)
  const digest = entry?.digest ?? parseDigest(reference)
  const handle = await openBlob(root, digest)
  try {
    const { size } = await handle.stat()
    if (size > MAX_MANIFEST_BYTES) {
      throw new OciError('TOO_LARGE', `The manifest ${digest} has more than ${MAX_MANIFEST_BYTES} bytes`)
    }
    const bytes = await handle.readFile()
    verifyBytes(bytes, digest)
    return { digest, mediaType: entry?.mediaType ?? mediaTypeOf(bytes, digest), size, bytes }
  } finally {
    await handle.close()
  }
}

/** A manifest that no entry names says its type itself. */
const mediaTypeOf = (bytes: Uint8Array, digest: Digest): string => {
  try {
    const { mediaType } = JSON.parse(Buffer.from(bytes).toString('utf8')) as { mediaType?: unknown }
    if (typeof mediaType === 'string' && isManifestMediaType(mediaType)) return mediaType
  } catch (cause) {
    throw new OciError('MANIFEST_INVALID', `${digest} is no manifest`, { cause })
  }
  throw new OciError('MANIFEST_INVALID', `${digest} does not say what kind of manifest it is`)
}

const listReferrers = async (
  root: string,
  subject: Digest,
  artifactType: string | undefined,
): Promise<Descriptor[]> => {
  const found: Descriptor[] = []
  for (const entry of await readEntries(root)) {
    const descriptor = subjectOf(await readManifest(root, entry.digest), subject)
    if (descriptor === undefined) continue
    if (artifactType === undefined || descriptor.artifactType === artifactType) found.push(descriptor)
  }
  return found
}
