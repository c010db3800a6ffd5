import pino, { type DestinationStream, type Logger } from 'pino'

/** JSON lines. An error is told by what it says: PostgreSQL's client hangs its whole self on errors, password included. */
export function createLog(level: string, to: DestinationStream = pino.destination(2)): Logger {
  return pino({ level, redact: ['req.headers.authorization'], serializers: { err: errorWords } }, to)
}

function errorWords(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const { name, message, stack, cause } = error
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {}
  const detail = 'detail' in error && typeof error.detail === 'string' ? { detail: error.detail } : {}
  return { type: name, message, ...code, ...detail, stack, ...(cause ? { cause: errorWords(cause) } : {}) }
}
