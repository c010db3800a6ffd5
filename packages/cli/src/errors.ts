import { ApiError } from '@tenon/protocol'
import { ZodError } from 'zod'
import { EXIT, exitCodeOfApi, type ExitCode } from './exit-codes.ts'

/** What this program itself has to say; `next` is what the user can do about it. */
export class CliError extends Error {
  readonly exitCode: ExitCode
  readonly next: string | undefined
  readonly lines: string[]

  constructor(
    exitCode: ExitCode,
    message: string,
    more: { next?: string; lines?: string[]; cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause })
    this.name = 'CliError'
    this.exitCode = exitCode
    this.next = more.next
    this.lines = more.lines ?? []
  }
}

export function usageError(message: string, next?: string): CliError {
  return new CliError(EXIT.usage, message, next === undefined ? {} : { next })
}

export interface Failure {
  exitCode: ExitCode
  message: string
  lines: string[]
  next: string | undefined
  requestId: string | undefined
}

/** Every thrown value as one shape to print. */
export function describeFailure(error: unknown): Failure {
  if (error instanceof CliError) {
    const { exitCode, message, lines, next } = error
    return { exitCode, message, lines, next, requestId: undefined }
  }
  if (error instanceof ApiError) {
    return {
      exitCode: exitCodeOfApi(error),
      message: error.message,
      lines: error.problems.map((p) => (p.path ? `${p.path}: ${p.message}` : p.message)),
      next: error.remedy ?? NEXT_BY_CODE[error.code],
      requestId: error.requestId,
    }
  }
  if (error instanceof ZodError) {
    return internal('the server’s answer has another form than this version of tenon expects', {
      lines: error.issues.slice(0, 5).map((i) => `${i.path.join('.')}: ${i.message}`),
      next: 'compare the versions of server and CLI: tenon doctor',
    })
  }
  return internal(error instanceof Error ? error.message : String(error), {
    lines: error instanceof Error && error.cause instanceof Error ? [error.cause.message] : [],
    next: 'run it again with TENON_DEBUG=1 to see where it happened, and report it',
  })
}

const NEXT_BY_CODE: Record<string, string> = {
  unauthorized: 'sign in: tenon login --url URL',
  token_expired: 'ask an owner for a new token (tenon tokens create), then: tenon login --url URL',
  forbidden: 'ask an owner to do it, or for a token with a higher role; see yours with: tenon doctor',
  rate_limited: 'wait a moment and try again',
  unavailable: 'wait a moment and try again; the server may be starting or its database away',
}

function internal(message: string, more: { lines: string[]; next: string }): Failure {
  return { exitCode: EXIT.internal, message, ...more, requestId: undefined }
}

export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
