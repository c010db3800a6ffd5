import { BUNDLE_ANNOTATIONS, bundleTitle } from '@tenon/core'
import { sha256Digest, type Digest, type Storage } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { createHash } from 'node:crypto'
import type { RegistryStore } from '../ground/vendor-registry.ts'

const MANIFEST_TYPE = 'application/vnd.oci.image.manifest.v1+json'
const EMPTY_TYPE = 'application/vnd.oci.empty.v1+json'

export class LayerTooLarge extends Error {}

export function createRegistryStore(storage: Storage): RegistryStore {
  const storeText = (repository: string, text: string) =>
    storeBlob(storage, repository, once(Buffer.from(text)), Buffer.byteLength(text))
  return {
    async storeLayer(repository, artifactType, layerType, content, maxBytes, annotations) {
      const config = await storeText(repository, '{}')
      const layer = await storeBlob(storage, repository, content, maxBytes)
      const { digest, bytes } = encode({
        artifactType,
        config: { mediaType: EMPTY_TYPE, ...config },
        layers: [{ mediaType: layerType, ...layer, ...(annotations === undefined ? {} : { annotations }) }],
      })
      await storage.putManifest(repository, { digest, mediaType: MANIFEST_TYPE, bytes })
      return { digest, layer: layer.digest, size: layer.size }
    },
    async storeBundle(repository, subject, { predicateType, text }) {
      const artifactType = MEDIA_TYPES.bundle
      const config = await storeText(repository, '{}')
      const layer = await storeText(repository, text)
      const annotations = {
        [BUNDLE_ANNOTATIONS.content]: 'dsse-envelope',
        [BUNDLE_ANNOTATIONS.predicateType]: predicateType,
      }
      const { digest, bytes } = encode({
        artifactType,
        config: { mediaType: EMPTY_TYPE, ...config },
        layers: [{ mediaType: artifactType, ...layer, annotations: bundleTitle(predicateType) }],
        subject,
        annotations,
      })
      const size = bytes.byteLength
      const descriptor = { mediaType: MANIFEST_TYPE, digest, size, artifactType, annotations }
      const referrer = { subject: subject.digest, descriptor }
      await storage.putManifest(repository, { digest, mediaType: MANIFEST_TYPE, bytes }, { referrer })
    },
  }
}

function encode(content: object): { digest: Digest; bytes: Buffer } {
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST_TYPE, ...content }))
  return { digest: sha256Digest(bytes), bytes }
}

async function storeBlob(
  storage: Storage,
  repository: string,
  source: AsyncIterable<Uint8Array>,
  maxBytes: number,
): Promise<{ digest: Digest; size: number }> {
  const upload = await storage.createUpload(repository)
  const hash = createHash('sha256')
  let size = 0
  async function* measured() {
    for await (const chunk of source) {
      size += chunk.byteLength
      if (size > maxBytes) throw new LayerTooLarge()
      hash.update(chunk)
      yield chunk
    }
  }
  try {
    await storage.appendUpload(repository, upload, 0, measured())
    const digest = `sha256:${hash.digest('hex')}` as const
    await storage.commitUpload(repository, upload, digest)
    return { digest, size }
  } catch (error) {
    await storage.cancelUpload(repository, upload).catch(() => undefined)
    throw error
  }
}

async function* once(bytes: Uint8Array) {
  yield bytes
}
