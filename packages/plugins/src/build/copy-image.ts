import { sizeWords } from '@tenon/core'
import { copyArtifact, type CopyResult, type Platform, type RegistryClient } from '@tenon/oci'
import type { OperationContext } from '../sdk/plugin.ts'
import { pinnable, type ResolvedImage } from './image-sources.ts'

const PAUSE_MS = 5000

/** Brings an image, by digest and with all that it consists of, into a repository of the vendor registry. */
export async function copyImage(
  context: OperationContext,
  image: ResolvedImage,
  to: { client: RegistryClient; repository: string },
  options: { platform?: Platform; tag?: string } = {},
): Promise<CopyResult> {
  const { registry, repository } = image.reference
  const name = `${registry}/${repository}@${image.digest}`
  context.log(`copying ${name}`)
  let toldAt = Date.now()
  const result = await copyArtifact({
    from: { client: image.client, repository },
    to,
    digest: image.digest,
    ...options,
    signal: context.signal,
    onProgress: ({ doneBytes, totalBytes }) => {
      if (Date.now() - toldAt < PAUSE_MS) return
      toldAt = Date.now()
      context.log(`${name}: ${sizeWords(doneBytes)} of ${sizeWords(totalBytes)}`)
    },
  })
  pinnable(result.digest, name)
  context.log(
    `${name}: ${sizeWords(result.transferredBytes)} copied, ${sizeWords(result.skippedBytes)} were there already`,
  )
  return result
}
