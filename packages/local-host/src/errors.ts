import type { LocalHostErrorCode } from '@tenon/protocol/local-host'

/** A refusal that reaches the caller as `{error: {code, message, remedy}}`. */
export class HostError extends Error {
  readonly code: LocalHostErrorCode
  readonly remedy: string

  constructor(code: LocalHostErrorCode, message: string, remedy: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'HostError'
    this.code = code
    this.remedy = remedy
  }
}

export function closing(what: string): HostError {
  return new HostError('closing', `${what} is being stopped or removed.`, 'Try again when it is back.')
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
