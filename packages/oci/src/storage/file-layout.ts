import { join } from 'node:path'
import { digestAlgorithm, digestHex, isDigest } from '../reference.ts'
import type { Digest } from '../reference.ts'

export type FileLayout = ReturnType<typeof fileLayout>

/** What stands in a repository for a manifest; the bytes are with all other content. */
export interface ManifestMark {
  mediaType: string
  size: number
  referrerOf?: Digest
}

/**
 * `blobs/<algorithm>/ab/abcd…` holds all content once; `repositories/<name>/_blobs|_manifests|_tags|_referrers`
 * hold what a repository has of it. No repository component starts with an underscore.
 */
export const fileLayout = (dir: string) => {
  const repository = (name: string): string => join(dir, 'repositories', ...name.split('/'))
  const blobs = join(dir, 'blobs')
  return {
    temporary: join(dir, 'tmp'),
    uploads: join(dir, 'uploads'),
    repositories: join(dir, 'repositories'),
    blobs,
    repository,
    content: (digest: Digest): string =>
      join(blobs, digestAlgorithm(digest), digestHex(digest).slice(0, 2), digestHex(digest)),
    blobLinks: (name: string): string => join(repository(name), '_blobs'),
    blobLink: (name: string, digest: Digest): string => join(repository(name), '_blobs', digestName(digest)),
    manifests: (name: string): string => join(repository(name), '_manifests'),
    manifest: (name: string, digest: Digest): string =>
      join(repository(name), '_manifests', digestName(digest)),
    tags: (name: string): string => join(repository(name), '_tags'),
    tag: (name: string, tag: string): string => join(repository(name), '_tags', tag),
    referrers: (name: string, subject: Digest): string =>
      join(repository(name), '_referrers', digestName(subject)),
  }
}

/** A digest as the name of a file in a repository; sha256 is not spelled out. */
export const digestName = (digest: Digest): string =>
  digestAlgorithm(digest) === 'sha256' ? digestHex(digest) : digest.replace(':', '-')

export const digestOfName = (name: string): Digest | undefined => {
  const digest = name.includes('-') ? name.replace('-', ':') : `sha256:${name}`
  return isDigest(digest) && digestName(digest) === name ? digest : undefined
}
