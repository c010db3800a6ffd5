/** Every way in which a call of the API server can fail. `expired`: a watch must begin anew. */
export type KubeErrorCode =
  | 'unreachable'
  | 'not_found'
  | 'conflict'
  | 'forbidden'
  | 'expired'
  | 'refused'
  | 'failed'
  | 'unexpected'

export class KubeError extends Error {
  readonly code: KubeErrorCode

  constructor(code: KubeErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'KubeError'
    this.code = code
  }
}

export function codeOfStatus(status: number): KubeErrorCode {
  if (status === 404) return 'not_found'
  if (status === 409) return 'conflict'
  if (status === 410) return 'expired'
  if (status === 401 || status === 403) return 'forbidden'
  return status >= 500 || status === 429 ? 'failed' : 'refused'
}

export function isKube(error: unknown, ...codes: KubeErrorCode[]): error is KubeError {
  return error instanceof KubeError && (codes.length === 0 || codes.includes(error.code))
}
