import type { Digest } from './reference.ts'
import type { Storage } from './storage/storage.ts'

export interface RepositoryUsage {
  name: string
  tags: number
  manifests: number
  blobs: number
  /** Of all it holds; content that other repositories hold too counts in each. */
  bytes: number
}

export interface RegistryUsage {
  repositories: RepositoryUsage[]
  /** Content is stored once, however many repositories hold it. */
  contents: number
  bytes: number
  uploads: { count: number; bytes: number }
}

/** What a registry holds, and how much room that takes. */
export const registryUsage = async (storage: Storage): Promise<RegistryUsage> => {
  const { upkeep } = storage
  const sizes = new Map<Digest, number>()
  let bytes = 0
  for await (const { digest, size } of upkeep.listContent()) {
    sizes.set(digest, size)
    bytes += size
  }
  const repositories: RepositoryUsage[] = []
  for (const name of await upkeep.listRepositories()) {
    const manifests = await upkeep.listManifests(name)
    const blobs = await upkeep.listBlobs(name)
    const tags = (await storage.listTags(name)) ?? []
    const held = new Set([...manifests, ...blobs].map(({ digest }) => digest))
    repositories.push({
      name,
      tags: tags.length,
      manifests: manifests.length,
      blobs: blobs.length,
      bytes: [...held].reduce((sum, digest) => sum + (sizes.get(digest) ?? 0), 0),
    })
  }
  return { repositories, contents: sizes.size, bytes, uploads: await upkeep.countUploads(0) }
}
