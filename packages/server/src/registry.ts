import {
  authorizeWith,
  createFileStorage,
  createRegistryHandler,
  createTokenIssuer,
  sha256Digest,
  type Grant,
  type RegistryHandler,
} from '@tenon/oci'
import { createHash, hkdfSync } from 'node:crypto'
import { join } from 'node:path'
import type { Logger } from 'pino'

const MANIFEST_TYPE = 'application/vnd.oci.image.manifest.v1+json'
const EMPTY_TYPE = 'application/vnd.oci.empty.v1+json'

/** The tenant's own registry, served at `/v2/` by this process; what the server itself stores goes in directly. */
export interface VendorRegistry {
  handler: RegistryHandler
  issueToken(grant: Grant, ttlSeconds: number, nowMs: number): string
  /** Stores a tar.gz as an artifact with one layer; the same bytes give the same digest. */
  storeLayer(
    repository: string,
    artifactType: string,
    layerType: string,
    bytes: AsyncIterable<Uint8Array>,
    maxBytes: number,
  ): Promise<{ digest: string; layer: string; size: number }>
}

export class LayerTooLarge extends Error {}

export async function openVendorRegistry(options: {
  dataDir: string
  masterKey: Uint8Array
  now: () => number
  log: Logger
}): Promise<VendorRegistry> {
  const storage = await createFileStorage(join(options.dataDir, 'registry'))
  const secret = new Uint8Array(
    hkdfSync('sha256', options.masterKey, new Uint8Array(0), 'tenon vendor registry tokens', 32),
  )
  const issuer = createTokenIssuer(secret)
  const log = options.log.child({ part: 'registry' })

  async function storeBlob(repository: string, source: AsyncIterable<Uint8Array>, maxBytes: number) {
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

  return {
    handler: createRegistryHandler({
      storage,
      authorize: authorizeWith(issuer, options.now),
      log: (record) =>
        log[record.level === 'error' ? 'error' : 'debug']({ ...record, err: record.error }, record.message),
    }),
    issueToken: (grant, ttlSeconds, nowMs) => issuer.issue(grant, ttlSeconds, nowMs),
    async storeLayer(repository, artifactType, layerType, bytes, maxBytes) {
      const config = await storeBlob(repository, once(Buffer.from('{}')), 2)
      const layer = await storeBlob(repository, bytes, maxBytes)
      const manifest = {
        schemaVersion: 2,
        mediaType: MANIFEST_TYPE,
        artifactType,
        config: { mediaType: EMPTY_TYPE, ...config },
        layers: [{ mediaType: layerType, ...layer }],
      }
      const text = Buffer.from(JSON.stringify(manifest))
      const digest = sha256Digest(text)
      await storage.putManifest(repository, { digest, mediaType: MANIFEST_TYPE, bytes: text })
      return { digest, layer: layer.digest, size: layer.size }
    },
  }
}

async function* once(bytes: Uint8Array) {
  yield bytes
}
