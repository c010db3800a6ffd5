import http from 'node:http'
import https from 'node:https'
import { proxyAgent, type ProxySettings } from './proxy.ts'

const MAX_ANSWER_BYTES = 1_048_576
const TIMEOUT_MS = 15_000

export interface JsonAnswer {
  status: number
  /** Undefined when the answer is no JSON. Untrusted: parse it with a schema. */
  body: unknown
}

/** One POST, no redirects: whoever answers for another address is not the one that was asked. */
export function postJson(
  url: URL,
  body: unknown,
  options: { proxy: ProxySettings; headers?: Record<string, string> },
): Promise<JsonAnswer> {
  const payload = Buffer.from(JSON.stringify(body))
  const agent = proxyAgent(url, options.proxy)
  return new Promise((resolve, reject) => {
    const request = (url.protocol === 'https:' ? https : http).request(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'content-length': payload.byteLength,
        ...options.headers,
      },
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(agent ? { agent } : {}),
    })
    request.on('error', reject)
    request.on('response', (response) => {
      collect(response).then(
        (text) => resolve({ status: response.statusCode ?? 0, body: parse(text) }),
        (error: unknown) => {
          request.destroy()
          reject(error as Error)
        },
      )
    })
    request.end(payload)
  })
}

async function collect(response: http.IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of response as AsyncIterable<Buffer>) {
    size += part.byteLength
    if (size > MAX_ANSWER_BYTES) throw new Error('the answer is too large')
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export function withSlash(url: string): string {
  return url.endsWith('/') ? url : `${url}/`
}
