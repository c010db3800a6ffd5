import {
  defaultUnpackLimits,
  isDigest,
  pullArtifactLayers,
  unpackTarGz,
  type RegistryClient,
} from '@tenon/oci'
import { PluginError } from './errors.ts'

export interface FolderSource {
  client: RegistryClient
  repository: string
  digest: string
  /** Refuses content that was made for something else. */
  artifactType?: string
  /** Symbolic links that stay inside come along; artifacts hold none, sources may. */
  links?: 'inside'
  signal: AbortSignal
}

/** An artifact with one folder layer, verified by digest, as files in `folder`, which must not exist yet. */
export async function pullFolder(source: FolderSource, folder: string): Promise<void> {
  const { client, repository, digest, artifactType, signal } = source
  if (!isDigest(digest)) throw invalid(source, 'is not named by a digest')
  const pulled = await pullArtifactLayers({
    client,
    repository,
    digest,
    signal,
    ...(artifactType === undefined ? {} : { artifactType }),
  })
  const [layer, ...more] = pulled.layers
  if (layer === undefined || more.length > 0) throw invalid(source, 'does not have exactly one layer')
  if (!layer.mediaType.endsWith('tar+gzip')) throw invalid(source, `has a layer of type ${layer.mediaType}`)
  const links = source.links === undefined ? {} : { links: source.links }
  await unpackTarGz(await layer.open(), folder, { ...defaultUnpackLimits, ...links })
}

function invalid(source: FolderSource, why: string): PluginError {
  const message = `${source.repository}@${source.digest} ${why}.`
  return new PluginError('artifact_invalid', message, 'Build it again and deploy the new build.')
}
