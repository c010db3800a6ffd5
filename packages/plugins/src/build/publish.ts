import { join } from 'node:path'
import { ANNOTATIONS, type ClosureImage, type Json, sizeWords } from '@tenon/core'
import { packFolderToFile, pushArtifact, type RegistryClient } from '@tenon/oci'
import { folderTitle, MEDIA_TYPES } from '@tenon/protocol'
import type { OperationContext, OperationResult } from '../sdk/plugin.ts'
import { openVendorRegistry } from '../sdk/registry.ts'

export interface Published {
  digest: string
  size: number
  repository: string
  mediaType: string
}

export async function vendorClient(context: OperationContext): Promise<RegistryClient> {
  const { client } = await openVendorRegistry({ ...context, now: Date.now })
  return client
}

/** A folder as an artifact with one layer; the same files and closure give the same digest. */
export async function publishFolder(
  context: OperationContext,
  artifact: {
    client: RegistryClient
    repository: string
    folder: string
    artifactType: string
    layerType?: string
    closure?: ClosureImage[]
    ignore?: (path: string) => boolean
    maxBytes?: number
  },
): Promise<Published> {
  const { client, repository, folder, artifactType, ignore, maxBytes } = artifact
  const file = join(context.workDir, 'layer.tar.gz')
  const layer = await packFolderToFile(folder, file, {
    ...(ignore === undefined ? {} : { ignore }),
    ...(maxBytes === undefined ? {} : { maxBytes }),
  })
  const pushed = await pushArtifact({
    client,
    repository,
    artifactType,
    layers: [
      {
        mediaType: artifact.layerType ?? MEDIA_TYPES.folderLayer,
        annotations: folderTitle(artifactType),
        file,
      },
    ],
    ...closureAnnotation(artifact.closure),
    signal: context.signal,
  })
  context.log(`pushed ${repository}@${pushed.digest}, ${sizeWords(layer.size)}`)
  return { digest: pushed.digest, size: layer.size, repository, mediaType: artifactType }
}

/** None for an empty closure: an artifact that needs no images says nothing of them. */
export function closureAnnotation(closure: ClosureImage[] = []): { annotations?: Record<string, string> } {
  return closure.length === 0 ? {} : { annotations: { [ANNOTATIONS.closure]: JSON.stringify(closure) } }
}

export function built(published: Published, facts: { [key: string]: Json | undefined }): OperationResult {
  const known = Object.entries(facts).filter(
    (fact): fact is [string, Json] => fact[1] !== undefined && fact[1] !== null,
  )
  return {
    ok: true,
    message: `built ${published.digest}`,
    data: { ...published, ...Object.fromEntries(known) },
  }
}
