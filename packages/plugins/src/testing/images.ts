import { mediaTypes, pushArtifact, sha256Digest, type Digest } from '@tenon/oci'
import type { TestRegistry } from './job-world.ts'

const CONFIG = 'application/vnd.oci.image.config.v1+json'

/** The host and port by which an image of this registry is named. */
export function hostOf(registry: TestRegistry): string {
  return new URL(registry.server.url).host
}

/** A real image with one layer, for one platform; its digest. */
export async function pushImage(
  to: TestRegistry,
  repository: string,
  tag: string,
  marker = tag,
  architecture = 'amd64',
): Promise<Digest> {
  const layer = Buffer.alloc(1024, marker)
  const rootfs = { type: 'layers', diff_ids: [sha256Digest(layer)] }
  const bytes = Buffer.from(
    JSON.stringify({ architecture, os: 'linux', config: { Labels: { marker } }, rootfs }),
  )
  const { digest } = await pushArtifact({
    client: to.client,
    repository,
    artifactType: CONFIG,
    config: { mediaType: CONFIG, bytes },
    layers: [{ mediaType: 'application/vnd.oci.image.layer.v1.tar', bytes: layer }],
    tag,
  })
  return digest
}

/** An index with an image for each architecture. */
export async function pushIndex(
  to: TestRegistry,
  repository: string,
  tag: string,
): Promise<{ digest: Digest; images: Record<string, Digest> }> {
  const images: Record<string, Digest> = {}
  const manifests = []
  for (const architecture of ['amd64', 'arm64']) {
    const digest = await pushImage(to, repository, `${tag}-${architecture}`, architecture, architecture)
    images[architecture] = digest
    const info = await to.client.headManifest(repository, digest)
    manifests.push({ ...info, platform: { os: 'linux', architecture } })
  }
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.index, manifests }))
  const { digest } = await to.client.putManifest(repository, tag, mediaTypes.index, bytes)
  return { digest, images }
}
