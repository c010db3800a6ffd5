import { readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { digestAlgorithms, isDigest } from '../reference.ts'
import type { Digest } from '../reference.ts'
import { exists, unlessMissing } from './durable-file.ts'
import { digestName, digestOfName } from './file-layout.ts'
import type { FileLayout, ManifestMark } from './file-layout.ts'
import type { FileUploads } from './file-uploads.ts'
import type { Kept, StorageUpkeep } from './storage.ts'

export const createFileUpkeep = (paths: FileLayout, uploads: FileUploads): StorageUpkeep => ({
  recover: async () => {
    for await (const { folder } of contentFolders(paths)) await putBack(folder)
    for (const repository of await listRepositories(paths.repositories)) {
      await putBack(paths.blobLinks(repository))
      await putBack(paths.manifests(repository))
    }
  },
  listRepositories: () => listRepositories(paths.repositories),
  listManifests: (repository) => listKept(paths.manifests(repository)),
  listBlobs: (repository) => listKept(paths.blobLinks(repository)),
  async *listContent() {
    for await (const { algorithm, folder } of contentFolders(paths))
      yield* await listKept(folder, (name) => contentDigest(algorithm, name))
  },
  countUploads: async (since, repository) =>
    sumOf((await uploads.list(repository)).filter((upload) => upload.touchedAt >= since)),
  removeManifest: async (repository, digest, untouchedSince) => {
    const mark = paths.manifest(repository, digest)
    const { referrerOf } = JSON.parse((await unlessMissing(readFile(mark, 'utf8'))) ?? '{}') as ManifestMark
    if ((await removeUntouched(mark, untouchedSince)) === undefined) return false
    if (referrerOf !== undefined) {
      await rm(join(paths.referrers(repository, referrerOf), digestName(digest)), { force: true })
    }
    return true
  },
  removeBlob: async (repository, digest, untouchedSince) =>
    (await removeUntouched(paths.blobLink(repository, digest), untouchedSince)) !== undefined,
  removeContent: (digest, untouchedSince) => removeUntouched(paths.content(digest), untouchedSince),
  removeStaleUploads: async (untouchedSince) => {
    const stale = (await uploads.list()).filter((upload) => upload.touchedAt < untouchedSince)
    for (const { path } of stale) await rm(path, { recursive: true, force: true })
    const files = await staleFiles(paths.temporary, untouchedSince)
    for (const { path } of files) await rm(path, { force: true })
    return sumOf([...stale, ...files])
  },
})

const ASIDE = '.removing'

/**
 * Set aside first, looked at again, removed then: whoever touched the file before it moved is seen here and
 * gets it back, whoever comes after finds it missing and says so. No order of the two loses content.
 */
const removeUntouched = async (path: string, since: number): Promise<number | undefined> => {
  const before = await unlessMissing(stat(path))
  if (before === undefined || before.mtimeMs >= since) return undefined
  const aside = `${path}${ASIDE}`
  const moved = await unlessMissing(rename(path, aside).then(() => stat(aside)))
  if (moved === undefined) return undefined
  if (moved.mtimeMs >= since) {
    await unlessMissing(rename(aside, path))
    return undefined
  }
  await rm(aside, { force: true })
  return moved.size
}

const putBack = async (folder: string): Promise<void> => {
  for (const name of (await unlessMissing(readdir(folder))) ?? []) {
    if (!name.endsWith(ASIDE)) continue
    const path = join(folder, name.slice(0, -ASIDE.length))
    if (await exists(path)) await rm(join(folder, name), { force: true })
    else await unlessMissing(rename(join(folder, name), path))
  }
}

/** A folder is a repository when it has one of the folders that start with an underscore. */
const listRepositories = async (root: string): Promise<string[]> => {
  const found = new Set<string>()
  const visit = async (folder: string, name: string): Promise<void> => {
    for (const entry of (await unlessMissing(readdir(folder, { withFileTypes: true }))) ?? []) {
      if (!entry.isDirectory()) continue
      if (entry.name.startsWith('_')) found.add(name)
      else await visit(join(folder, entry.name), name === '' ? entry.name : `${name}/${entry.name}`)
    }
  }
  await visit(root, '')
  return [...found].toSorted()
}

async function* contentFolders(paths: FileLayout): AsyncGenerator<{ algorithm: string; folder: string }> {
  for (const algorithm of digestAlgorithms) {
    const all = join(paths.blobs, algorithm)
    for (const name of ((await unlessMissing(readdir(all))) ?? []).toSorted())
      yield { algorithm, folder: join(all, name) }
  }
}

const listKept = async (
  folder: string,
  digestOf: (name: string) => Digest | undefined = digestOfName,
): Promise<(Kept & { size: number })[]> => {
  const kept: (Kept & { size: number })[] = []
  for (const name of (await unlessMissing(readdir(folder))) ?? []) {
    const digest = digestOf(name)
    const found = digest === undefined ? undefined : await unlessMissing(stat(join(folder, name)))
    if (digest === undefined || found === undefined) continue
    kept.push({ digest, touchedAt: found.mtimeMs, size: found.size })
  }
  return kept
}

const contentDigest = (algorithm: string, name: string): Digest | undefined => {
  const digest = `${algorithm}:${name}`
  return isDigest(digest) ? digest : undefined
}

const staleFiles = async (folder: string, since: number): Promise<{ path: string; bytes: number }[]> => {
  const stale: { path: string; bytes: number }[] = []
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    const found = await unlessMissing(stat(path))
    if (found !== undefined && found.mtimeMs < since) stale.push({ path, bytes: found.size })
  }
  return stale
}

const sumOf = (items: { bytes: number }[]): { count: number; bytes: number } => ({
  count: items.length,
  bytes: items.reduce((sum, item) => sum + item.bytes, 0),
})
