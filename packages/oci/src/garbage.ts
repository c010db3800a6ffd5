import { manifestBlobs, parseManifest } from './manifest.ts'
import type { OciManifest } from './manifest.ts'
import type { Digest } from './reference.ts'
import type { Kept, Storage } from './storage/storage.ts'

export interface GarbageOptions {
  /** Longer than the longest push takes: what was touched within it stays, whatever it looks like. */
  graceMs: number
  now: () => number
  /** Only tells what would go. */
  dryRun?: boolean
  /** Manifests that no tag reaches stay by default: artifacts are known by digest. */
  untagged?: 'keep' | 'remove'
  /** What is needed though no tag names it; for whoever removes the untagged. */
  isRoot?: (repository: string, digest: Digest) => boolean
  /** Manifests of the same repository that one names besides its tree. */
  named?: (manifest: OciManifest) => Digest[]
}

export interface GarbageReport {
  manifests: number
  /** Blobs taken out of a repository; their content goes when no other repository holds it. */
  blobs: number
  contents: number
  uploads: number
  bytesFreed: number
  dryRun: boolean
}

/**
 * Removes what nothing needs. A manifest needs its blobs, an index its manifests, a kept manifest its
 * referrers, an upload in progress the blobs of its repository. Safe while other processes push: first all
 * is read, then each removal looks again whether somebody touched the thing meanwhile.
 */
export const collectGarbage = async (storage: Storage, options: GarbageOptions): Promise<GarbageReport> => {
  const { upkeep } = storage
  const since = options.now() - options.graceMs
  const dryRun = options.dryRun ?? false
  const report = { manifests: 0, blobs: 0, contents: 0, uploads: 0, bytesFreed: 0, dryRun }
  const linked = new Set<Digest>()
  if (!dryRun) await upkeep.recover()
  for (const repository of await upkeep.listRepositories()) {
    const content = await readRepository(storage, repository, since, options)
    const waste = findWaste(content, options.untagged ?? 'keep')
    for (const digest of waste.manifests) {
      if (dryRun || (await upkeep.removeManifest(repository, digest, since))) report.manifests++
      else linked.add(digest)
    }
    for (const digest of waste.blobs) {
      if (dryRun || (await upkeep.removeBlob(repository, digest, since))) report.blobs++
      else linked.add(digest)
    }
    for (const digest of waste.kept) linked.add(digest)
  }
  for await (const content of upkeep.listContent()) {
    if (linked.has(content.digest) || content.touchedAt >= since) continue
    const freed = dryRun ? content.size : await upkeep.removeContent(content.digest, since)
    if (freed === undefined) continue
    report.contents++
    report.bytesFreed += freed
  }
  const stale = dryRun ? await staleUploads(storage, since) : await upkeep.removeStaleUploads(since)
  return { ...report, uploads: stale.count, bytesFreed: report.bytesFreed + stale.bytes }
}

interface RepositoryManifest extends Kept {
  /** By a tag, or by whoever asked for the collection. */
  isWanted: boolean
  /** Manifests it names. */
  children: Digest[]
  blobs: Digest[]
  subject?: Digest
}

interface RepositoryContent {
  manifests: RepositoryManifest[]
  blobs: Kept[]
  since: number
  isPushed: boolean
}

/** Blobs are listed before manifests: one whose manifest comes in between is then seen as needed. */
const readRepository = async (
  storage: Storage,
  repository: string,
  since: number,
  { isRoot, named }: GarbageOptions,
): Promise<RepositoryContent> => {
  const { upkeep } = storage
  const isPushed = (await upkeep.countUploads(since, repository)).count > 0
  const blobs = await upkeep.listBlobs(repository)
  const marks = await upkeep.listManifests(repository)
  const tagged = new Set<Digest>()
  for (const tag of (await storage.listTags(repository)) ?? []) {
    const digest = await storage.resolveTag(repository, tag)
    if (digest !== undefined) tagged.add(digest)
  }
  const manifests: RepositoryManifest[] = []
  for (const mark of marks) {
    const found = await storage.getManifest(repository, mark.digest)
    if (found === undefined) continue
    const manifest = parseManifest(found.mediaType, found.bytes)
    manifests.push({
      ...mark,
      isWanted: tagged.has(mark.digest) || isRoot?.(repository, mark.digest) === true,
      children: [...manifest.manifests.map((child) => child.digest), ...(named?.(manifest) ?? [])],
      blobs: manifestBlobs(manifest).map((blob) => blob.digest),
      ...(manifest.subject === undefined ? {} : { subject: manifest.subject.digest }),
    })
  }
  return { manifests, blobs, since, isPushed }
}

/** Pure: what of a repository nobody needs, and what must keep its content. */
export const findWaste = (
  { manifests, blobs, since, isPushed }: RepositoryContent,
  untagged: 'keep' | 'remove',
): { manifests: Digest[]; blobs: Digest[]; kept: Digest[] } => {
  const isRoot = (manifest: RepositoryManifest): boolean =>
    untagged === 'keep' || isPushed || manifest.isWanted || manifest.touchedAt >= since
  const reached = reachable(manifests, isRoot)
  const needed = new Set(
    manifests.flatMap((manifest) => (reached.has(manifest.digest) ? manifest.blobs : [])),
  )
  const isNeeded = (blob: Kept): boolean => isPushed || blob.touchedAt >= since || needed.has(blob.digest)
  return {
    manifests: manifests.filter(({ digest }) => !reached.has(digest)).map(({ digest }) => digest),
    blobs: blobs.filter((blob) => !isNeeded(blob)).map(({ digest }) => digest),
    kept: [...reached, ...needed, ...blobs.filter(isNeeded).map(({ digest }) => digest)],
  }
}

/** From the roots to what they name, and back from what is kept to what refers to it. */
const reachable = (
  manifests: RepositoryManifest[],
  isRoot: (manifest: RepositoryManifest) => boolean,
): Set<Digest> => {
  const byDigest = new Map(manifests.map((manifest) => [manifest.digest, manifest]))
  const referrers = groupBySubject(manifests)
  const reached = new Set<Digest>()
  const queue = manifests.filter(isRoot).map(({ digest }) => digest)
  for (let digest = queue.pop(); digest !== undefined; digest = queue.pop()) {
    if (reached.has(digest)) continue
    reached.add(digest)
    queue.push(...(byDigest.get(digest)?.children ?? []), ...(referrers.get(digest) ?? []))
  }
  return reached
}

const groupBySubject = (manifests: RepositoryManifest[]): Map<Digest, Digest[]> => {
  const groups = new Map<Digest, Digest[]>()
  for (const { digest, subject } of manifests) {
    if (subject !== undefined) groups.set(subject, [...(groups.get(subject) ?? []), digest])
  }
  return groups
}

const staleUploads = async (storage: Storage, since: number): Promise<{ count: number; bytes: number }> => {
  const all = await storage.upkeep.countUploads(0)
  const fresh = await storage.upkeep.countUploads(since)
  return { count: all.count - fresh.count, bytes: all.bytes - fresh.bytes }
}
