import type { IncomingMessage, ServerResponse } from 'node:http'
import { sizeWords } from '@tenon/core'
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
  locked: 423,
  internal: 500,
  unsupported: 501,
  engine_failed: 502,
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

/** An answer that is no JSON document of ours. */
export class RawAnswer {
  readonly status: number
  readonly bytes: Uint8Array
  readonly contentType: string

  constructor(status: number, bytes: Uint8Array = new Uint8Array(), contentType = 'application/json') {
    this.status = status
    this.bytes = bytes
    this.contentType = contentType
  }
}

export function answer(response: ServerResponse, value: unknown): void {
  if (!(value instanceof RawAnswer)) return answerJson(response, 200, value)
  answerBytes(response, value.status, value.bytes, value.contentType)
}

export function answerJson(response: ServerResponse, status: number, body: unknown): void {
  answerBytes(response, status, Buffer.from(JSON.stringify(body)), 'application/json')
}

function answerBytes(response: ServerResponse, status: number, bytes: Uint8Array, contentType: string): void {
  response.writeHead(status, {
    'content-type': contentType,
    'content-length': bytes.byteLength,
    'cache-control': 'no-store',
  })
  response.end(bytes)
}

export function answerError(response: ServerResponse, error: JobApiError): void {
  const { code, message, remedy } = error
  if (code === 'too_large') response.setHeader('connection', 'close')
  answerJson(response, JOB_API_ERRORS[code], { error: { code, message, remedy } })
}

/** Bounded, then checked: whatever a job sends is untrusted. Masked before a schema cuts it: half a secret is one too. */
export async function readBody<T>(
  request: IncomingMessage,
  schema: z.ZodType<T>,
  masked?: (value: unknown) => unknown,
): Promise<T> {
  return parseBody(await readBytes(request, JOB_API_MAX_BODY), schema, masked)
}

export async function readBytes(request: IncomingMessage, max: number): Promise<Buffer> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.byteLength
    if (size > max)
      throw new JobApiError('too_large', `The body is larger than ${sizeWords(max)}.`, 'Send less.')
    parts.push(part)
  }
  return Buffer.concat(parts)
}

export function parseBody<T>(
  bytes: Buffer,
  schema: z.ZodType<T>,
  masked: (value: unknown) => unknown = (value) => value,
): T {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch (cause) {
    throw new JobApiError('bad_request', 'The body is no JSON.', 'Send a JSON document.', { cause })
  }
  const parsed = schema.safeParse(masked(value))
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
