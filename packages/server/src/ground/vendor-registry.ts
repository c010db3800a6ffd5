import type { Descriptor, Digest, Grant, RegistryHandler, Storage } from '@tenon/oci'

/** The tenant's own registry, served at `/v2/` by this process; what the server itself stores goes in directly. */
export interface VendorRegistry extends RegistryStore {
  handler: RegistryHandler
  storage: Storage
  issueToken(grant: Grant, ttlSeconds: number, nowMs: number): string
}

/** What the server itself stores in the vendor registry, past the network. */
export interface RegistryStore {
  /** Stores a tar.gz as an artifact with one layer; the same bytes give the same digest. */
  storeLayer(
    repository: string,
    artifactType: string,
    layerType: string,
    bytes: AsyncIterable<Uint8Array>,
    maxBytes: number,
    annotations?: Record<string, string>,
  ): Promise<{ digest: Digest; layer: string; size: number }>
  /** Stores a signed statement about a manifest beside it. */
  storeBundle(
    repository: string,
    subject: Descriptor,
    bundle: { predicateType: string; text: string },
  ): Promise<void>
}
