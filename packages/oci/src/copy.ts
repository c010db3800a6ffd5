import { Transform } from 'node:stream'
import type { Readable } from 'node:stream'
import type { FetchedManifest, RegistryClient } from './client/client.ts'
import { OciError } from './errors.ts'
import { manifestBlobs, parseManifest } from './manifest.ts'
import type { Descriptor } from './manifest.ts'
import type { Digest } from './reference.ts'

export interface CopyEnd {
  client: RegistryClient
  repository: string
}

export interface CopyProgress {
  totalBytes: number
  /** Copied or found in place; never goes backwards. */
  doneBytes: number
  totalBlobs: number
  doneBlobs: number
}

export interface CopyOptions {
  from: CopyEnd
  to: CopyEnd
  digest: Digest
  onProgress?: (progress: CopyProgress) => void
  signal?: AbortSignal
}

export interface CopyResult {
  digest: Digest
  mediaType: string
  size: number
  manifests: number
  blobs: number
  transferredBytes: number
  skippedBytes: number
}

/** Copies a manifest or index with everything it names; the manifests follow once all blobs are there. */
export const copyArtifact = async (options: CopyOptions): Promise<CopyResult> => {
  const closure = await readClosure(options)
  const progress = createProgress(closure.blobs, options.onProgress)
  let transferredBytes = 0
  // The first failure stops the others: nobody waits for blobs of a copy that has already failed.
  const failed = new AbortController()
  const signal =
    options.signal === undefined ? failed.signal : AbortSignal.any([options.signal, failed.signal])
  await inParallel(PARALLEL_BLOBS, closure.blobs, failed, async (blob) => {
    const isSent = await copyBlob({ ...options, signal }, blob, (bytes) => progress.reached(blob, bytes))
    if (isSent) transferredBytes += blob.size
    progress.finished(blob)
  })
  for (const manifest of closure.manifests) await copyManifest(options, manifest)
  const root = closure.manifests.at(-1) as FetchedManifest
  return {
    digest: root.digest,
    mediaType: root.mediaType,
    size: root.size,
    manifests: closure.manifests.length,
    blobs: closure.blobs.length,
    transferredBytes,
    skippedBytes: closure.blobs.reduce((sum, blob) => sum + blob.size, 0) - transferredBytes,
  }
}

const PARALLEL_BLOBS = 4
const MAX_DEPTH = 4
const MAX_MANIFESTS = 500
const MAX_BLOBS = 10_000

interface Closure {
  /** Children before the index that names them. */
  manifests: FetchedManifest[]
  blobs: Descriptor[]
}

const readClosure = async (options: CopyOptions): Promise<Closure> => {
  const { client, repository } = options.from
  const call = options.signal === undefined ? {} : { signal: options.signal }
  const manifests = new Map<Digest, FetchedManifest>()
  const seen = new Set<Digest>()
  const blobs = new Map<Digest, Descriptor>()
  const visit = async (digest: Digest, depth: number, expected?: Descriptor): Promise<void> => {
    if (seen.has(digest)) return
    seen.add(digest)
    if (depth > MAX_DEPTH || seen.size > MAX_MANIFESTS) {
      throw new OciError('TOO_LARGE', `The index nests deeper than ${MAX_DEPTH} or names too many manifests`)
    }
    const fetched = await client.getManifest(repository, digest, call)
    if (expected !== undefined && expected.size !== fetched.size) {
      throw new OciError(
        'SIZE_MISMATCH',
        `The manifest ${digest} has ${fetched.size} bytes, not ${expected.size}`,
      )
    }
    const manifest = parseManifest(fetched.mediaType, fetched.bytes)
    for (const child of manifest.manifests) await visit(child.digest, depth + 1, child)
    for (const blob of manifestBlobs(manifest)) blobs.set(blob.digest, blob)
    if (blobs.size > MAX_BLOBS)
      throw new OciError('TOO_LARGE', `The artifact names more than ${MAX_BLOBS} blobs`)
    manifests.set(digest, fetched)
  }
  await visit(options.digest, 1)
  return { manifests: [...manifests.values()], blobs: [...blobs.values()] }
}

/** True when bytes went over the wire. */
const copyBlob = async (
  options: CopyOptions & { signal: AbortSignal },
  blob: Descriptor,
  reached: (bytes: number) => void,
): Promise<boolean> => {
  const { from, to, signal } = options
  const { digest, size } = blob
  if (await to.client.hasBlob(to.repository, digest, { signal })) return false
  if (from.client.origin === to.client.origin && from.repository !== to.repository) {
    if (await to.client.mountBlob(to.repository, digest, from.repository, { signal })) return false
  }
  const open = async (offset: number): Promise<Readable> => {
    const { stream } = await from.client.getBlob(from.repository, digest, { offset, size, signal })
    return counted(stream, offset, reached)
  }
  await to.client.putBlob(to.repository, digest, size, open, { signal })
  return true
}

const copyManifest = async (options: CopyOptions, manifest: FetchedManifest): Promise<void> => {
  const { client, repository } = options.to
  const call = options.signal === undefined ? {} : { signal: options.signal }
  const { digest, mediaType, bytes } = manifest
  if ((await client.headManifest(repository, digest, call)) !== undefined) return
  await client.putManifest(repository, digest, mediaType, bytes, call)
}

const counted = (stream: Readable, offset: number, reached: (bytes: number) => void): Readable => {
  let at = offset
  const counter = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      at += chunk.byteLength
      reached(at)
      done(null, chunk)
    },
  })
  stream.once('error', (error) => counter.destroy(error))
  counter.once('close', () => stream.destroy())
  return stream.pipe(counter)
}

/** A blob that starts again reports less than before; its highest mark is what counts. */
const createProgress = (blobs: Descriptor[], onProgress: CopyOptions['onProgress']) => {
  const marks = new Map<Digest, number>()
  const totalBytes = blobs.reduce((sum, blob) => sum + blob.size, 0)
  let doneBytes = 0
  let doneBlobs = 0
  const report = (): void => onProgress?.({ totalBytes, doneBytes, totalBlobs: blobs.length, doneBlobs })
  const reached = (blob: Descriptor, bytes: number): void => {
    const before = marks.get(blob.digest) ?? 0
    const mark = Math.min(blob.size, Math.max(before, bytes))
    marks.set(blob.digest, mark)
    doneBytes += mark - before
    if (mark > before) report()
  }
  report()
  return {
    reached,
    finished: (blob: Descriptor): void => {
      doneBlobs++
      reached(blob, blob.size)
      report()
    },
  }
}

const inParallel = async <T>(
  limit: number,
  items: T[],
  failed: AbortController,
  work: (item: T) => Promise<void>,
): Promise<void> => {
  const queue = items.values()
  const errors: unknown[] = []
  const worker = async (): Promise<void> => {
    for (const item of queue) {
      if (errors.length > 0) return
      try {
        await work(item)
      } catch (error) {
        errors.push(error)
        failed.abort(error)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker))
  if (errors.length > 0) throw errors[0]
}
