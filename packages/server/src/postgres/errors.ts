/** Every way in which the embedded PostgreSQL can refuse to come up. */
export type PostgresErrorCode =
  | 'postgres_no_binaries'
  | 'postgres_no_account'
  | 'postgres_port_in_use'
  | 'postgres_data_in_use'
  | 'postgres_data_broken'
  | 'postgres_start_failed'
  | 'postgres_stop_failed'

export class PostgresError extends Error {
  readonly code: PostgresErrorCode

  constructor(code: PostgresErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'PostgresError'
    this.code = code
  }
}

export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

export function startFailed(port: number, logTail: string): PostgresError {
  if (/could not bind .*Address already in use/.test(logTail)) return portInUse(port)
  return new PostgresError('postgres_start_failed', `PostgreSQL did not start; its last words:\n${logTail}`)
}

export function portInUse(port: number): PostgresError {
  return new PostgresError(
    'postgres_port_in_use',
    `port ${port} on 127.0.0.1 is in use by another program; stop that program, or choose another port (0 takes a free one)`,
  )
}
