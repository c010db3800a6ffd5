import { manifestBlobs, parseManifest } from '../manifest.ts'
import type { OciManifest } from '../manifest.ts'
import type { Digest } from '../reference.ts'
import type { Storage } from '../storage/storage.ts'

/** Answers what belongs to an artifact: its tree, the images it names, and what refers to any of these. */
export interface Closures {
  /** Does one of the artifacts reach this manifest or blob? */
  reach(repository: string, roots: readonly Digest[], digest: Digest): Promise<boolean>
}

export interface ClosuresOptions {
  storage: Pick<Storage, 'getManifest' | 'listReferrers'>
  /** Manifests of the same repository that a root names besides its tree. */
  named?: (root: OciManifest) => Digest[]
  now: () => number
  /** How many closures are remembered. */
  keep?: number
}

const KEEP = 500
const MAX_MANIFESTS = 2000
/** Content never changes, but signatures come later: what is not found is looked for again after this. */
const STALE_MS = 1000

/** Read from storage when first asked for, and remembered. */
export const createClosures = (options: ClosuresOptions): Closures => {
  const { now, keep = KEEP } = options
  const known = new Map<string, { at: number; digests: Promise<Set<Digest>> }>()
  const read = (key: string, repository: string, root: Digest): Promise<Set<Digest>> => {
    const digests = readClosureOf(options, repository, root)
    known.delete(key)
    known.set(key, { at: now(), digests })
    if (known.size > keep) known.delete(known.keys().next().value ?? '')
    digests.catch(() => known.delete(key))
    return digests
  }
  const reaches = async (repository: string, root: Digest, digest: Digest): Promise<boolean> => {
    if (root === digest) return true
    const key = `${repository}@${root}`
    const held = known.get(key)
    if (held === undefined) return (await read(key, repository, root)).has(digest)
    known.delete(key)
    known.set(key, held)
    if ((await held.digests).has(digest)) return true
    return now() - held.at >= STALE_MS && (await read(key, repository, root)).has(digest)
  }
  return {
    reach: async (repository, roots, digest) => {
      for (const root of roots) if (await reaches(repository, root, digest)) return true
      return false
    },
  }
}

const readClosureOf = async (
  { storage, named }: ClosuresOptions,
  repository: string,
  root: Digest,
): Promise<Set<Digest>> => {
  const manifests = new Set<Digest>([root])
  const blobs = new Set<Digest>()
  // A set is walked in the order of insertion, what is added on the way included.
  for (const digest of manifests) {
    if (manifests.size > MAX_MANIFESTS) break
    const found = await storage.getManifest(repository, digest)
    if (found === undefined) continue
    const manifest = parseManifest(found.mediaType, found.bytes)
    for (const blob of manifestBlobs(manifest)) blobs.add(blob.digest)
    for (const child of manifest.manifests) manifests.add(child.digest)
    if (digest === root) for (const other of named?.(manifest) ?? []) manifests.add(other)
    for (const referrer of await storage.listReferrers(repository, digest)) manifests.add(referrer.digest)
  }
  return new Set([...manifests, ...blobs])
}
