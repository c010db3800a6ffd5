import http from 'node:http'
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'

/** Every way in which a call of the engine can fail. */
export type EngineErrorCode = 'unreachable' | 'not_found' | 'conflict' | 'refused' | 'failed' | 'unexpected'

export class EngineError extends Error {
  readonly code: EngineErrorCode

  constructor(code: EngineErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'EngineError'
    this.code = code
  }
}

export interface EngineCall {
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  query?: Record<string, string>
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal
  /** How long the engine may be silent; 0 for calls that wait for a job. */
  silenceMilliseconds?: number
}

const SILENCE_MILLISECONDS = 120_000
const MAX_ANSWER_BYTES = 16 * 1024 * 1024
const problemSchema = z.object({ message: z.string() })

/** One call over the engine's socket. A connection each: a restarted engine leaves no stale one behind. */
export function callEngine(socketPath: string, call: EngineCall): Promise<IncomingMessage> {
  const { method, path, query = {}, body, headers = {}, signal } = call
  const search = new URLSearchParams(query).toString()
  const payload = body === undefined ? undefined : JSON.stringify(body)
  const silence = call.silenceMilliseconds ?? SILENCE_MILLISECONDS
  return new Promise((resolve, reject) => {
    const request = http.request({
      socketPath,
      method,
      path: search === '' ? path : `${path}?${search}`,
      headers: {
        host: 'engine',
        ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
        'content-length': Buffer.byteLength(payload ?? ''),
        ...headers,
      },
      agent: false,
      ...(signal === undefined ? {} : { signal }),
    })
    request.setTimeout(silence, () => {
      request.destroy(new Error(`it did not answer for ${silence / 1000} seconds`))
    })
    request.on('response', resolve)
    request.on('error', (cause) => reject(signal?.aborted ? signal.reason : unreachable(socketPath, cause)))
    request.end(payload)
  })
}

/** The answer as JSON, checked; an error status as an `EngineError` in the engine's own words. */
export async function readAnswer<T>(answer: IncomingMessage, schema: z.ZodType<T>): Promise<T> {
  const text = await readText(answer)
  const status = answer.statusCode ?? 0
  if (status >= 400) throw engineProblem(status, text)
  const parsed = schema.safeParse(text === '' ? undefined : parseJson(text))
  if (parsed.success) return parsed.data
  throw new EngineError(
    'unexpected',
    `The engine gave an answer that is not understood (status ${status}).`,
    {
      cause: parsed.error,
    },
  )
}

export async function readText(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of answer) {
      size += (chunk as Buffer).length
      if (size > MAX_ANSWER_BYTES) throw new Error('its answer is too long')
      chunks.push(chunk as Buffer)
    }
  } catch (cause) {
    throw new EngineError('unreachable', `The engine broke off: ${(cause as Error).message}.`, { cause })
  }
  return Buffer.concat(chunks).toString()
}

export function engineProblem(status: number, text: string): EngineError {
  const problem = problemSchema.safeParse(parseJson(text))
  const said = problem.success ? problem.data.message : text.slice(0, 500)
  return new EngineError(codeOf(status), said.trim() || `The engine answered ${status}.`)
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function codeOf(status: number): EngineErrorCode {
  if (status === 404) return 'not_found'
  if (status === 409) return 'conflict'
  return status >= 500 ? 'failed' : 'refused'
}

function unreachable(socketPath: string, cause: Error): EngineError {
  const message = `The container engine cannot be reached at ${socketPath}: ${cause.message}.`
  return new EngineError('unreachable', message, { cause })
}
