import type { Readable } from 'node:stream'
import { readBlob } from '../client/client.ts'
import type { RegistryClient } from '../client/client.ts'
import { OciError } from '../errors.ts'
import { parseManifest } from '../manifest.ts'
import type { Descriptor, OciManifest } from '../manifest.ts'
import type { Digest } from '../reference.ts'

export interface PulledArtifact {
  digest: Digest
  manifest: OciManifest
  readConfig(): Promise<Buffer>
  layers: (Descriptor & { open(): Promise<Readable> })[]
}

export interface PullArtifactOptions {
  client: RegistryClient
  repository: string
  digest: Digest
  /** Refuses content that was made for something else. */
  artifactType?: string
  signal?: AbortSignal
}

const MAX_CONFIG_BYTES = 4 * 1024 * 1024

/** Reads the manifest by digest; each layer is a stream that fails unless it is exactly that content. */
export const pullArtifactLayers = async (options: PullArtifactOptions): Promise<PulledArtifact> => {
  const { client, repository, digest, artifactType } = options
  const call = options.signal === undefined ? {} : { signal: options.signal }
  const fetched = await client.getManifest(repository, digest, call)
  const manifest = parseManifest(fetched.mediaType, fetched.bytes)
  const { config } = manifest
  if (config === undefined)
    throw new OciError('MANIFEST_INVALID', `${digest} is an index; pull one of its manifests`)
  const actual = manifest.artifactType ?? config.mediaType
  if (artifactType !== undefined && actual !== artifactType) {
    throw new OciError('MANIFEST_INVALID', `${digest} is ${JSON.stringify(actual)}, not ${artifactType}`)
  }
  return {
    digest,
    manifest,
    readConfig: () => readBlob(client, repository, config, MAX_CONFIG_BYTES),
    layers: manifest.layers.map((layer) => ({
      ...layer,
      open: async () =>
        (await client.getBlob(repository, layer.digest, { size: layer.size, ...call })).stream,
    })),
  }
}
