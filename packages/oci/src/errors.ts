export type OciErrorCode =
  | 'NAME_INVALID'
  | 'DIGEST_INVALID'
  | 'DIGEST_MISMATCH'
  | 'SIZE_MISMATCH'
  | 'MANIFEST_INVALID'
  | 'MANIFEST_BLOB_UNKNOWN'
  | 'NOT_FOUND'
  | 'UPLOAD_UNKNOWN'
  | 'RANGE_INVALID'
  | 'TOO_LARGE'
  | 'UNAUTHORIZED'
  | 'DENIED'
  | 'REFUSED'
  | 'REDIRECT_REFUSED'
  | 'RESPONSE_INVALID'
  | 'UNAVAILABLE'
  | 'ARCHIVE_REFUSED'
  | 'STORAGE_FULL'
  | 'TOKEN_INVALID'
  | 'ABORTED'

/** Every failure of this library; `code` is a closed set, the message says what to do next. */
export class OciError extends Error {
  readonly code: OciErrorCode

  constructor(code: OciErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'OciError'
    this.code = code
  }
}

export const isOciError = (error: unknown, code?: OciErrorCode): error is OciError =>
  error instanceof OciError && (code === undefined || error.code === code)
