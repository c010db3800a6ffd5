import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { OciError } from '../errors.ts'
import type { OciErrorCode } from '../errors.ts'
import type { Digest } from '../reference.ts'

/** A refusal in the words of the distribution specification. */
export class RegistryRefusal extends Error {
  readonly status: number
  readonly code: WireCode
  readonly headers: OutgoingHttpHeaders

  constructor(status: number, code: WireCode, message: string, headers: OutgoingHttpHeaders = {}) {
    super(message)
    this.name = 'RegistryRefusal'
    this.status = status
    this.code = code
    this.headers = headers
  }
}

export type WireCode =
  | 'BLOB_UNKNOWN'
  | 'BLOB_UPLOAD_INVALID'
  | 'BLOB_UPLOAD_UNKNOWN'
  | 'DENIED'
  | 'DIGEST_INVALID'
  | 'MANIFEST_BLOB_UNKNOWN'
  | 'MANIFEST_INVALID'
  | 'MANIFEST_UNKNOWN'
  | 'NAME_INVALID'
  | 'NAME_UNKNOWN'
  | 'SIZE_INVALID'
  | 'TOOMANYREQUESTS'
  | 'UNAUTHORIZED'
  | 'UNKNOWN'
  | 'UNSUPPORTED'

/** What this library can fail with while serving; anything else is a fault of ours and answered 500. */
const wire: Partial<Record<OciErrorCode, { status: number; code: WireCode }>> = {
  NAME_INVALID: { status: 400, code: 'NAME_INVALID' },
  DIGEST_INVALID: { status: 400, code: 'DIGEST_INVALID' },
  DIGEST_MISMATCH: { status: 400, code: 'DIGEST_INVALID' },
  SIZE_MISMATCH: { status: 400, code: 'SIZE_INVALID' },
  MANIFEST_INVALID: { status: 400, code: 'MANIFEST_INVALID' },
  NOT_FOUND: { status: 404, code: 'BLOB_UNKNOWN' },
  UPLOAD_UNKNOWN: { status: 404, code: 'BLOB_UPLOAD_UNKNOWN' },
  RANGE_INVALID: { status: 416, code: 'BLOB_UPLOAD_INVALID' },
  TOO_LARGE: { status: 413, code: 'SIZE_INVALID' },
  STORAGE_FULL: { status: 507, code: 'UNKNOWN' },
}

export const asRefusal = (error: unknown): RegistryRefusal | undefined => {
  if (error instanceof RegistryRefusal) return error
  const known = error instanceof OciError ? wire[error.code] : undefined
  return known === undefined
    ? undefined
    : new RegistryRefusal(known.status, known.code, (error as Error).message)
}

export const sendRefusal = (res: ServerResponse, refusal: RegistryRefusal): void => {
  const { status, code, message, headers } = refusal
  sendJson(res, status, { errors: [{ code, message }] }, headers)
}

export const sendJson = (
  res: ServerResponse,
  status: number,
  body: unknown,
  headers: OutgoingHttpHeaders = {},
): void =>
  sendBytes(res, status, Buffer.from(JSON.stringify(body)), {
    'Content-Type': 'application/json',
    ...headers,
  })

/** Node leaves the body out of an answer to HEAD by itself. */
export const sendBytes = (
  res: ServerResponse,
  status: number,
  bytes: Uint8Array,
  headers: OutgoingHttpHeaders,
): void => {
  res.writeHead(status, { ...headers, 'Content-Length': bytes.byteLength })
  res.end(bytes)
}

export const sendEmpty = (res: ServerResponse, status: number, headers: OutgoingHttpHeaders): void => {
  res.writeHead(status, status === 204 ? headers : { ...headers, 'Content-Length': 0 })
  res.end()
}

export const etag = (digest: Digest) => ({ ETag: `"${digest}"` })

/** True when the client says that it has this content already. */
export const isKnown = (req: IncomingMessage, digest: Digest): boolean =>
  (req.headers['if-none-match'] ?? '').split(',').some((known) => known.trim() === etag(digest).ETag)

export const sendUnchanged = (res: ServerResponse, digest: Digest): void => {
  res.writeHead(304, { ...etag(digest), 'Docker-Content-Digest': digest })
  res.end()
}
