import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Digest } from '../reference.ts'
import type { Storage } from '../storage/storage.ts'
import type { AccessRequest } from './access.ts'

/** What happened, for audit; never holds a credential. */
export type RegistryEvent =
  | { type: 'blob.pushed'; repository: string; digest: Digest }
  | { type: 'blob.mounted'; repository: string; from: string; digest: Digest }
  | {
      type: 'manifest.pushed'
      repository: string
      digest: Digest
      mediaType: string
      size: number
      tag?: string
    }
  | { type: 'manifest.pulled'; repository: string; digest: Digest; tag?: string }
  | { type: 'blob.deleted'; repository: string; digest: Digest }
  | { type: 'manifest.deleted'; repository: string; reference: string }
  | {
      type: 'access.refused'
      repository: string | undefined
      action: AccessRequest['action']
      status: 401 | 403
      reference?: string
      digest?: Digest
    }

/** One request being answered; `allow` throws the refusal when access is not granted. */
export interface Exchange {
  req: IncomingMessage
  res: ServerResponse
  query: URLSearchParams
  storage: Storage
  maxManifestBytes: number
  chunkMinBytes: number
  allow(wanted: Omit<AccessRequest, 'bearer'>): Promise<void>
  emit(event: RegistryEvent): void
}
