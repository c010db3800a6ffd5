import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { BlobSource } from '../client/blob-upload.ts'
import type { ManifestInfo, RegistryClient } from '../client/client.ts'
import { sha256Digest } from '../digest.ts'
import { mediaTypes } from '../manifest.ts'
import type { Descriptor } from '../manifest.ts'
import type { Digest } from '../reference.ts'

export type LayerSource = {
  mediaType: string
  annotations?: Record<string, string>
} & ({ bytes: Uint8Array } | { file: string })

export interface PushArtifactOptions {
  client: RegistryClient
  repository: string
  artifactType: string
  /** Without one, the artifact has OCI's empty config. */
  config?: { mediaType: string; bytes: Uint8Array }
  layers: LayerSource[]
  annotations?: Record<string, string>
  /** Without one, the artifact is known by its digest only. */
  tag?: string
  subject?: Descriptor
  signal?: AbortSignal
}

/** Pushes what is missing, then the manifest; the same content gives the same digest. */
export const pushArtifact = async (options: PushArtifactOptions): Promise<ManifestInfo> => {
  const { client, repository, artifactType } = options
  const config = options.config ?? { mediaType: mediaTypes.empty, bytes: Buffer.from('{}') }
  const configDescriptor = await pushBlob(options, config)
  const layers: Descriptor[] = []
  for (const layer of options.layers) layers.push(await pushBlob(options, layer))
  const manifest = {
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    artifactType,
    config: configDescriptor,
    layers,
    ...(options.subject === undefined ? {} : { subject: options.subject }),
    ...sortedAnnotations(options.annotations),
  }
  const bytes = Buffer.from(JSON.stringify(manifest))
  const reference = options.tag ?? sha256Digest(bytes)
  const call = options.signal === undefined ? {} : { signal: options.signal }
  return client.putManifest(repository, reference, mediaTypes.manifest, bytes, call)
}

const pushBlob = async (options: PushArtifactOptions, layer: LayerSource): Promise<Descriptor> => {
  const { client, repository, signal } = options
  const call = signal === undefined ? {} : { signal }
  const { digest, size, source } = await measure(layer)
  if (!(await client.hasBlob(repository, digest, call))) {
    await client.putBlob(repository, digest, size, source, call)
  }
  return { mediaType: layer.mediaType, digest, size, ...sortedAnnotations(layer.annotations) }
}

const measure = async (layer: LayerSource): Promise<{ digest: Digest; size: number; source: BlobSource }> => {
  if ('bytes' in layer) {
    return { digest: sha256Digest(layer.bytes), size: layer.bytes.byteLength, source: layer.bytes }
  }
  const hash = createHash('sha256')
  let size = 0
  for await (const chunk of createReadStream(layer.file)) {
    hash.update(chunk as Buffer)
    size += (chunk as Buffer).byteLength
  }
  const source = async (start: number) => createReadStream(layer.file, { start, highWaterMark: 256 * 1024 })
  return { digest: `sha256:${hash.digest('hex')}`, size, source }
}

const sortedAnnotations = (annotations: Record<string, string> | undefined) =>
  annotations === undefined
    ? {}
    : {
        annotations: Object.fromEntries(
          Object.keys(annotations)
            .toSorted()
            .map((key) => [key, annotations[key] ?? '']),
        ),
      }
