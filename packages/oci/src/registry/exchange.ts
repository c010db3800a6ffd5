import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SourceLimit } from '../copy/source-limit.ts'
import type { Digest } from '../reference.ts'
import type { Storage } from '../storage/storage.ts'
import type { AccessRefusal, AccessRequest } from './access.ts'

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
      subject?: AccessRefusal['subject']
      reason?: AccessRefusal['reason']
    }

/**
 * Trades a credential that is no bearer for one, once. Undefined when the credential is not of that kind;
 * a refusal is thrown.
 */
export type Redeem = (credential: {
  username: string
  password: string
}) => Promise<{ bearer: string; expiresInSeconds: number } | undefined>

/** One request being answered; `allow` throws the refusal when access is not granted. */
export interface Exchange {
  req: IncomingMessage
  res: ServerResponse
  query: URLSearchParams
  storage: Storage
  maxManifestBytes: number
  chunkMinBytes: number
  deletes: boolean
  sparseIndexes: boolean
  redeem: Redeem | undefined
  limit: Pick<SourceLimit, 'enter'> | undefined
  limitWaitMs: number
  allow(wanted: Omit<AccessRequest, 'bearer'>): Promise<void>
  emit(event: RegistryEvent): void
}
