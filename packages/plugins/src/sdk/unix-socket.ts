import { request } from 'node:http'
import { request as secureRequest } from 'node:https'

/** A server over TLS whose certificate the caller knows; no other authority counts. */
export interface SecureAddress {
  host: string
  port: number
  ca: string
}

export interface SocketCall {
  socketPath: string
  /** Instead of the socket. */
  secure?: SecureAddress
  method: string
  path: string
  headers?: Record<string, string>
  /** Sent as JSON, or as they are when they are bytes. */
  body?: unknown
  timeoutMs: number
  maxAnswerBytes: number
  signal?: AbortSignal
}

export interface SocketAnswer {
  status: number
  bytes: Buffer
  text: string
}

/** One exchange over a unix socket, or over TLS; rejects with the socket's own error, its `code` included. */
export function callUnixSocket(call: SocketCall): Promise<SocketAnswer> {
  const isRaw = call.body instanceof Uint8Array
  const payload = payloadOf(call.body)
  return new Promise((resolve, reject) => {
    const send = call.secure ? secureRequest : request
    const outgoing = send({
      ...(call.secure ?? { socketPath: call.socketPath }),
      method: call.method,
      path: call.path,
      agent: false,
      timeout: call.timeoutMs,
      headers: {
        ...(payload ? { 'content-type': isRaw ? 'application/octet-stream' : 'application/json' } : {}),
        ...(payload ? { 'content-length': payload.length } : {}),
        ...call.headers,
      },
      ...(call.signal ? { signal: call.signal } : {}),
    })
    const cut = (message: string, code: string) =>
      outgoing.destroy(Object.assign(new Error(message), { code }))
    outgoing.on('timeout', () => cut('no answer in time', 'ETIMEDOUT'))
    outgoing.on('error', reject)
    outgoing.on('response', (incoming) => {
      const chunks: Buffer[] = []
      let size = 0
      incoming.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > call.maxAnswerBytes) cut('the answer is too large', 'EMSGSIZE')
        else chunks.push(chunk)
      })
      incoming.on('error', reject)
      incoming.on('end', () => resolve(answerOf(incoming.statusCode ?? 500, Buffer.concat(chunks))))
    })
    outgoing.end(payload)
  })
}

function payloadOf(body: unknown): Buffer | undefined {
  if (body instanceof Uint8Array) return Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  return body === undefined ? undefined : Buffer.from(JSON.stringify(body))
}

function answerOf(status: number, bytes: Buffer): SocketAnswer {
  return {
    status,
    bytes,
    get text() {
      return bytes.toString('utf8')
    },
  }
}
