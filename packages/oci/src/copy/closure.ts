import type { FetchedManifest, RegistryClient } from '../client/client.ts'
import { OciError } from '../errors.ts'
import { isIndexMediaType, manifestBlobs, parseManifest, requiredBlobs } from '../manifest.ts'
import type { Descriptor, OciManifest } from '../manifest.ts'
import { selectPlatform } from '../platform.ts'
import type { Platform } from '../platform.ts'
import type { Digest } from '../reference.ts'

const MAX_DEPTH = 4
const MAX_MANIFESTS = 500
const MAX_BLOBS = 10_000

/** Everything an artifact consists of. */
export interface Closure {
  root: FetchedManifest
  /** What is named comes before what names it; referrers come after their subject. */
  manifests: FetchedManifest[]
  /** Those of the manifests that are there because they refer to another. */
  referrers: FetchedManifest[]
  blobs: Descriptor[]
  /** Those without which one of the manifests is not whole. */
  required: Set<Digest>
}

export interface ClosureOptions {
  client: Pick<RegistryClient, 'getManifest' | 'listReferrers'>
  repository: string
  digest: Digest
  /** Takes one manifest out of an index instead of all. */
  platform?: Platform
  referrers?: boolean
  /** Manifests of the same repository that come along because the root names them. */
  named?: (root: OciManifest) => Digest[]
  signal?: AbortSignal
}

export const readClosure = async (options: ClosureOptions): Promise<Closure> => {
  const { client, repository } = options
  const call = options.signal === undefined ? {} : { signal: options.signal }
  const manifests = new Map<Digest, FetchedManifest>()
  const referring = new Set<Digest>()
  const seen = new Set<Digest>()
  const blobs = new Map<Digest, Descriptor>()
  const required = new Set<Digest>()
  const root = await chooseRoot(options, call)
  const visit = async (digest: Digest, depth: number, expected?: Descriptor): Promise<void> => {
    if (seen.has(digest)) return
    seen.add(digest)
    if (depth > MAX_DEPTH || seen.size > MAX_MANIFESTS) {
      throw new OciError('TOO_LARGE', `The index nests deeper than ${MAX_DEPTH} or names too many manifests`)
    }
    const fetched = await client.getManifest(repository, digest, call)
    checkSize(fetched, expected)
    const manifest = parseManifest(fetched.mediaType, fetched.bytes)
    for (const child of manifest.manifests) await visit(child.digest, depth + 1, child)
    for (const blob of manifestBlobs(manifest)) addBlob(blobs, blob)
    for (const blob of requiredBlobs(manifest)) required.add(blob)
    if (digest === root) for (const other of options.named?.(manifest) ?? []) await visit(other, depth + 1)
    manifests.set(digest, fetched)
    if (options.referrers !== true) return
    for (const referrer of await client.listReferrers(repository, digest, call)) {
      referring.add(referrer.digest)
      await visit(referrer.digest, depth + 1, referrer)
    }
  }
  await visit(root, 1)
  const all = [...manifests.values()]
  return {
    root: manifests.get(root) as FetchedManifest,
    manifests: all,
    referrers: all.filter(({ digest }) => referring.has(digest)),
    blobs: [...blobs.values()],
    required,
  }
}

const chooseRoot = async (options: ClosureOptions, call: { signal?: AbortSignal }): Promise<Digest> => {
  if (options.platform === undefined) return options.digest
  const fetched = await options.client.getManifest(options.repository, options.digest, call)
  if (!isIndexMediaType(fetched.mediaType)) return options.digest
  return selectPlatform(parseManifest(fetched.mediaType, fetched.bytes), options.platform).digest
}

const checkSize = (fetched: FetchedManifest, expected: Descriptor | undefined): void => {
  if (expected === undefined || expected.size === fetched.size) return
  throw new OciError(
    'SIZE_MISMATCH',
    `The manifest ${fetched.digest} has ${fetched.size} bytes, not ${expected.size}`,
  )
}

const addBlob = (blobs: Map<Digest, Descriptor>, blob: Descriptor): void => {
  const known = blobs.get(blob.digest)
  if (known !== undefined && known.size !== blob.size) {
    throw new OciError('SIZE_MISMATCH', `The artifact gives ${blob.digest} two sizes`)
  }
  blobs.set(blob.digest, blob)
  if (blobs.size > MAX_BLOBS)
    throw new OciError('TOO_LARGE', `The artifact names more than ${MAX_BLOBS} blobs`)
}
