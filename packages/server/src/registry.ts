import { ANNOTATIONS, parseClosure } from '@tenon/core'
import {
  authorizeWith,
  createClosures,
  createFileStorage,
  createRegistryHandler,
  createTokenIssuer,
  isDigest,
  sha256Digest,
  type Descriptor,
  type Digest,
  type Grant,
  type OciManifest,
  type Redeem,
  type RegistryEvent,
  type RegistryHandler,
  type Storage,
} from '@tenon/oci'
import { createHash, hkdfSync } from 'node:crypto'
import { join } from 'node:path'
import type { Logger } from 'pino'

const MANIFEST_TYPE = 'application/vnd.oci.image.manifest.v1+json'
const EMPTY_TYPE = 'application/vnd.oci.empty.v1+json'

/** The tenant's own registry, served at `/v2/` by this process; what the server itself stores goes in directly. */
export interface VendorRegistry {
  handler: RegistryHandler
  storage: Storage
  issueToken(grant: Grant, ttlSeconds: number, nowMs: number): string
  /** Stores a tar.gz as an artifact with one layer; the same bytes give the same digest. */
  storeLayer(
    repository: string,
    artifactType: string,
    layerType: string,
    bytes: AsyncIterable<Uint8Array>,
    maxBytes: number,
  ): Promise<{ digest: Digest; layer: string; size: number }>
  /** Stores what refers to a manifest, such as its signature. */
  storeReferrer(
    repository: string,
    subject: Descriptor,
    artifactType: string,
    text: string,
    annotations: Record<string, string>,
  ): Promise<void>
}

/** What the registry asks and tells while it serves. */
export interface RegistryHooks {
  isLive(subject: string): Promise<boolean>
  refused(event: Extract<RegistryEvent, { type: 'access.refused' }>): Promise<void>
  redeem: Redeem
}

/** A list that cannot be read names nothing; whoever syncs such an artifact refuses it. */
export const closureImages = (manifest: OciManifest): Digest[] =>
  (parseClosure(manifest.annotations?.[ANNOTATIONS.closure]) ?? []).flatMap(({ digest }) =>
    isDigest(digest) ? [digest] : [],
  )

export class LayerTooLarge extends Error {}

export async function openVendorRegistry(options: {
  dataDir: string
  masterKey: Uint8Array
  publicUrl: string | undefined
  now: () => number
  log: Logger
  hooks: RegistryHooks
}): Promise<VendorRegistry> {
  const { now, hooks, publicUrl } = options
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

  const storeText = async (repository: string, text: string) =>
    storeBlob(repository, once(Buffer.from(text)), Buffer.byteLength(text))
  const closures = createClosures({ storage, named: closureImages, now })

  return {
    storage,
    handler: createRegistryHandler({
      storage,
      authorize: authorizeWith(issuer, now, { closures, isLive: hooks.isLive }),
      redeem: hooks.redeem,
      onEvent: (event) => {
        if (event.type !== 'access.refused') return
        hooks.refused(event).catch((error: unknown) => log.error({ err: error }, 'a refusal is not audited'))
      },
      ...(publicUrl === undefined ? {} : { realm: new URL('/v2/token', publicUrl).href }),
      log: (record) =>
        log[record.level === 'error' ? 'error' : 'debug']({ ...record, err: record.error }, record.message),
    }),
    issueToken: (grant, ttlSeconds, nowMs) => issuer.issue(grant, ttlSeconds, nowMs),
    async storeLayer(repository, artifactType, layerType, bytes, maxBytes) {
      const config = await storeText(repository, '{}')
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
    async storeReferrer(repository, subject, artifactType, content, annotations) {
      const config = await storeText(repository, '{}')
      const layer = await storeText(repository, content)
      const manifest = {
        schemaVersion: 2,
        mediaType: MANIFEST_TYPE,
        artifactType,
        config: { mediaType: EMPTY_TYPE, ...config },
        layers: [{ mediaType: artifactType, ...layer }],
        subject,
        annotations,
      }
      const bytes = Buffer.from(JSON.stringify(manifest))
      const digest = sha256Digest(bytes)
      const descriptor = {
        mediaType: MANIFEST_TYPE,
        digest,
        size: bytes.byteLength,
        artifactType,
        annotations,
      }
      const referrer = { subject: subject.digest, descriptor }
      await storage.putManifest(repository, { digest, mediaType: MANIFEST_TYPE, bytes }, { referrer })
    },
  }
}

async function* once(bytes: Uint8Array) {
  yield bytes
}
