import { Agent, request, type Dispatcher } from 'undici'
import { z } from 'zod'
import type { KubeAccess } from './kube-access.ts'
import { codeOfStatus, KubeError } from './kube-error.ts'

const SILENCE_MILLISECONDS = 30_000
const MAX_ANSWER_BYTES = 32 * 1024 * 1024
const problemSchema = z.object({ message: z.string() })

export interface KubeCall {
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  query?: Record<string, string>
  body?: unknown
  signal?: AbortSignal
  /** How long the server may be silent. */
  silenceMilliseconds?: number
}

/** Calls of one API server, over connections that are kept. */
export interface KubeHttp {
  readonly access: KubeAccess
  ask<T>(schema: z.ZodType<T>, call: KubeCall): Promise<T>
  /** Each line of the answer as it comes. */
  lines(call: KubeCall): AsyncIterable<string>
}

export function createKubeHttp(access: KubeAccess): KubeHttp {
  const dispatcher = new Agent({ connect: { ...access.tls }, connections: 32, keepAliveTimeout: 30_000 })

  async function call(asked: KubeCall): Promise<Dispatcher.ResponseData> {
    const { method, path, query = {}, body, signal } = asked
    const silence = asked.silenceMilliseconds ?? SILENCE_MILLISECONDS
    const search = new URLSearchParams(query).toString()
    const token = await access.token()
    try {
      return await request(`${access.server}${path}${search === '' ? '' : `?${search}`}`, {
        dispatcher,
        method,
        headers: {
          accept: 'application/json',
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal === undefined ? {} : { signal }),
        headersTimeout: silence,
        bodyTimeout: silence,
      })
    } catch (cause) {
      if (signal?.aborted) throw signal.reason
      throw unreachable(access, cause)
    }
  }

  return {
    access,
    async ask(schema, asked) {
      const answer = await call(asked)
      const text = await readText(access, answer)
      if (answer.statusCode >= 400) throw kubeProblem(answer.statusCode, text)
      const parsed = schema.safeParse(parseJson(text))
      if (parsed.success) return parsed.data
      const message = `The API server gave an answer to ${asked.method} ${asked.path} that is not understood.`
      throw new KubeError('unexpected', message, { cause: parsed.error })
    },
    async *lines(asked) {
      const answer = await call(asked)
      if (answer.statusCode >= 400) {
        throw kubeProblem(answer.statusCode, await readText(access, answer))
      }
      let rest = ''
      try {
        for await (const bytes of answer.body.setEncoding('utf8') as AsyncIterable<string>) {
          const lines = (rest + bytes).split('\n')
          rest = lines.pop() ?? ''
          yield* lines
        }
      } catch (cause) {
        if (asked.signal?.aborted) throw asked.signal.reason
        throw unreachable(access, cause)
      }
    },
  }
}

async function readText(access: KubeAccess, answer: Dispatcher.ResponseData): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > MAX_ANSWER_BYTES) throw new Error('its answer is too long')
      chunks.push(chunk)
    }
  } catch (cause) {
    throw unreachable(access, cause)
  }
  return Buffer.concat(chunks).toString('utf8')
}

export function kubeProblem(status: number, text: string): KubeError {
  const problem = problemSchema.safeParse(parseJson(text))
  const said = problem.success ? problem.data.message : text.slice(0, 500)
  return new KubeError(codeOfStatus(status), said.trim() || `The API server answered ${status}.`)
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function unreachable(access: KubeAccess, cause: unknown): KubeError {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new KubeError('unreachable', `The API server cannot be reached at ${access.server}: ${why}.`, {
    cause,
  })
}
