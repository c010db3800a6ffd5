import type { Readable } from 'node:stream'
import type { Descriptor } from '../manifest.ts'
import type { Digest } from '../reference.ts'

/** Both ends are included, as in an HTTP range. */
export interface ByteRange {
  start: number
  end: number
}

export interface StoredManifest {
  digest: Digest
  mediaType: string
  bytes: Uint8Array
}

/**
 * Where a registry keeps its content. Blobs are shared between repositories but readable only through
 * one that holds them. Every write is durable when its promise resolves; all of them may be repeated.
 * Callers pass names that the reference grammar has accepted. Missing content is `undefined` or `false`;
 * failures are `OciError`s.
 */
export interface Storage {
  statBlob(repository: string, digest: Digest): Promise<{ size: number } | undefined>
  openBlob(repository: string, digest: Digest, range?: ByteRange): Promise<Readable>
  mountBlob(from: string, to: string, digest: Digest): Promise<boolean>
  /** Takes the blob out of the repository; its content stays until garbage collection. */
  deleteBlob(repository: string, digest: Digest): Promise<boolean>

  createUpload(repository: string): Promise<string>
  uploadSize(repository: string, id: string): Promise<number>
  /** Adds at `offset`, or at the end without one; keeps what arrived when the source breaks off. */
  appendUpload(
    repository: string,
    id: string,
    offset: number | undefined,
    source: AsyncIterable<Uint8Array>,
  ): Promise<number>
  /** Verifies and publishes; an upload that is not `digest` is removed and refused. */
  commitUpload(repository: string, id: string, digest: Digest): Promise<void>
  cancelUpload(repository: string, id: string): Promise<void>

  putManifest(repository: string, manifest: StoredManifest, options?: PutManifestOptions): Promise<void>
  statManifest(repository: string, digest: Digest): Promise<{ mediaType: string; size: number } | undefined>
  getManifest(repository: string, digest: Digest): Promise<StoredManifest | undefined>
  deleteManifest(repository: string, digest: Digest): Promise<boolean>
  listReferrers(repository: string, subject: Digest): Promise<Descriptor[]>

  resolveTag(repository: string, tag: string): Promise<Digest | undefined>
  /** Sorted; `undefined` when the repository does not exist. */
  listTags(repository: string): Promise<string[] | undefined>
  deleteTag(repository: string, tag: string): Promise<boolean>

  upkeep: StorageUpkeep
}

export interface Kept {
  digest: Digest
  /** Milliseconds; the last time it was written, or asked for by somebody who may be about to push. */
  touchedAt: number
}

/**
 * What garbage collection and usage need. A removal takes the time that makes things old and keeps what was
 * touched since, even when that happens while it runs and in another process.
 */
export interface StorageUpkeep {
  /** Puts back what an earlier collection set aside when it was killed. */
  recover(): Promise<void>
  listRepositories(): Promise<string[]>
  listManifests(repository: string): Promise<Kept[]>
  listBlobs(repository: string): Promise<Kept[]>
  listContent(): AsyncIterable<Kept & { size: number }>
  /** Uploads of the repository, or of all, that were touched since. */
  countUploads(since: number, repository?: string): Promise<{ count: number; bytes: number }>
  removeManifest(repository: string, digest: Digest, untouchedSince: number): Promise<boolean>
  removeBlob(repository: string, digest: Digest, untouchedSince: number): Promise<boolean>
  /** Answers the bytes freed. */
  removeContent(digest: Digest, untouchedSince: number): Promise<number | undefined>
  removeStaleUploads(untouchedSince: number): Promise<{ count: number; bytes: number }>
}

export interface PutManifestOptions {
  tag?: string
  /** Set when the manifest has a subject: the descriptor its subject's referrers list shows. */
  referrer?: { subject: Digest; descriptor: Descriptor }
}
