import type { UploadSessions } from '../client/blob-upload.ts'
import type { FetchedManifest, ManifestInfo, RegistryClient } from '../client/client.ts'
import { digestOf } from '../digest.ts'
import { OciError } from '../errors.ts'
import type { Descriptor, OciManifest } from '../manifest.ts'
import type { Platform } from '../platform.ts'
import { digestAlgorithm } from '../reference.ts'
import type { Digest } from '../reference.ts'
import { copyBlob } from './copy-blob.ts'
import { readClosure } from './closure.ts'
import type { Closure } from './closure.ts'
import { createProgress } from './progress.ts'
import type { CopyProgress } from './progress.ts'
import type { SourceLimit } from './source-limit.ts'
import { sharedTransfers } from './transfers.ts'
import type { Transfers } from './transfers.ts'

/** What a copy needs of either side: a registry, or a folder in OCI's image layout. */
export type ArtifactStore = Pick<
  RegistryClient,
  | 'origin'
  | 'getManifest'
  | 'headManifest'
  | 'putManifest'
  | 'getBlob'
  | 'hasBlob'
  | 'putBlob'
  | 'mountBlob'
  | 'listReferrers'
>

export interface CopyEnd {
  client: ArtifactStore
  repository: string
}

export interface CopyOptions {
  from: CopyEnd
  to: CopyEnd
  digest: Digest
  /** Takes one manifest out of an index instead of the whole. */
  platform?: Platform
  /** Takes along what refers to the manifests: signatures, provenance. */
  referrers?: boolean
  /** Takes along manifests of the same repository that the copied one names. */
  named?: (root: OciManifest) => Digest[]
  /** Names the copy at its destination. */
  tag?: string
  parallel?: number
  /** Spares the source; share one between all copies that read from it. */
  limit?: SourceLimit
  /** Lets a later process go on in the middle of a blob. */
  sessions?: UploadSessions
  transfers?: Transfers
  /** Milliseconds that only go forward. */
  clock?: () => number
  onProgress?: (progress: CopyProgress) => void
  signal?: AbortSignal
}

export interface CopyResult {
  digest: Digest
  mediaType: string
  size: number
  manifests: number
  /** What came along because it refers to a manifest. */
  referrers: ManifestInfo[]
  blobs: number
  transferredBytes: number
  skippedBytes: number
}

/** Copies a manifest or index with everything it names; the manifests follow once all blobs are there. */
export const copyArtifact = async (options: CopyOptions): Promise<CopyResult> => {
  const { from, clock = () => performance.now() } = options
  const closure = await readClosure({ ...options, ...from })
  const blobs = await presentBlobs(options, closure)
  const progress = createProgress(blobs, clock, options.onProgress)
  let transferredBytes = 0
  // The first failure stops the others: nobody waits for blobs of a copy that has already failed.
  const failed = new AbortController()
  const signal =
    options.signal === undefined ? failed.signal : AbortSignal.any([options.signal, failed.signal])
  const job = { ...options, signal, transfers: options.transfers ?? sharedTransfers }
  await inParallel(options.parallel ?? PARALLEL_BLOBS, largestFirst(blobs), failed, async (blob) => {
    const isSent = await copyBlob(job, blob, (bytes) => progress.reached(blob, bytes))
    if (isSent) transferredBytes += blob.size
    progress.finished(blob)
  })
  for (const manifest of closure.manifests) await copyManifest(options, manifest)
  const { root } = closure
  if (options.tag !== undefined) await tagManifest(options, root, options.tag)
  return {
    digest: root.digest,
    mediaType: root.mediaType,
    size: root.size,
    manifests: closure.manifests.length,
    referrers: closure.referrers.map(({ digest, mediaType, size }) => ({ digest, mediaType, size })),
    blobs: blobs.length,
    transferredBytes,
    skippedBytes: blobs.reduce((sum, blob) => sum + blob.size, 0) - transferredBytes,
  }
}

const PARALLEL_BLOBS = 6

/** A layer that may be absent goes along only where the source has it. */
const presentBlobs = async (options: CopyOptions, closure: Closure): Promise<Descriptor[]> => {
  const { client, repository } = options.from
  const present: Descriptor[] = []
  for (const blob of closure.blobs) {
    const isPresent =
      closure.required.has(blob.digest) || (await client.hasBlob(repository, blob.digest, callOf(options)))
    if (isPresent) present.push(blob)
  }
  return present
}

/** A large blob begun last would be waited for alone. */
const largestFirst = (blobs: Descriptor[]): Descriptor[] => blobs.toSorted((a, b) => b.size - a.size)

const callOf = ({ signal }: CopyOptions) => (signal === undefined ? {} : { signal })

const copyManifest = async (options: CopyOptions, manifest: FetchedManifest): Promise<void> => {
  const { client, repository } = options.to
  const { digest, mediaType, bytes } = manifest
  if ((await client.headManifest(repository, digest, callOf(options))) !== undefined) return
  await client.putManifest(repository, digest, mediaType, bytes, callOf(options))
}

const tagManifest = async (options: CopyOptions, root: FetchedManifest, tag: string): Promise<void> => {
  const { client, repository } = options.to
  const found = await client.headManifest(repository, tag, callOf(options))
  // A registry names what is pushed by tag by an algorithm of its own choice.
  if (found !== undefined && found.digest === digestOf(digestAlgorithm(found.digest), root.bytes)) return
  await client.putManifest(repository, tag, root.mediaType, root.bytes, callOf(options))
}

const inParallel = async <T>(
  limit: number,
  items: T[],
  failed: AbortController,
  work: (item: T) => Promise<void>,
): Promise<void> => {
  if (limit < 1) throw new OciError('TOO_LARGE', 'At least one blob must be copied at a time')
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
