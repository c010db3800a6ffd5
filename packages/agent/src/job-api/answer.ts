import type { IncomingMessage, ServerResponse } from 'node:http'
import { JOB_API_MAX_BODY } from '@tenon/protocol'
import type { z } from 'zod'

export const JOB_API_ERRORS = {
  bad_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  unknown_route: 404,
  method_not_allowed: 405,
  conflict: 409,
  too_large: 413,
  internal: 500,
  unavailable: 503,
} as const
export type JobApiErrorCode = keyof typeof JOB_API_ERRORS

export class JobApiError extends Error {
  readonly code: JobApiErrorCode
  readonly remedy: string

  constructor(code: JobApiErrorCode, message: string, remedy: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'JobApiError'
    this.code = code
    this.remedy = remedy
  }
}

export function answerJson(response: ServerResponse, status: number, body: unknown): void {
  const payload = Buffer.from(JSON.stringify(body))
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': payload.byteLength,
    'cache-control': 'no-store',
  })
  response.end(payload)
}

export function answerError(response: ServerResponse, error: JobApiError): void {
  const { code, message, remedy } = error
  if (code === 'too_large') response.setHeader('connection', 'close')
  answerJson(response, JOB_API_ERRORS[code], { error: { code, message, remedy } })
}

/** Bounded, then checked: whatever a job sends is untrusted. */
export async function readBody<T>(request: IncomingMessage, schema: z.ZodType<T>): Promise<T> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.byteLength
    if (size > JOB_API_MAX_BODY) {
      throw new JobApiError('too_large', `The body is larger than ${JOB_API_MAX_BODY} bytes.`, 'Send less.')
    }
    parts.push(part)
  }
  let value: unknown
  try {
    value = JSON.parse(Buffer.concat(parts).toString('utf8'))
  } catch (cause) {
    throw new JobApiError('bad_request', 'The body is no JSON.', 'Send a JSON document.', { cause })
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const where = parsed.error.issues
    .slice(0, 3)
    .map((issue) => `${issue.path.join('.') || 'the body'}: ${issue.message}`)
  throw new JobApiError(
    'bad_request',
    `The body does not have the expected form (${where.join('; ')}).`,
    'See protocol/src/job-api.ts for the forms.',
  )
}
