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
  body?: unknown
  timeoutMs: number
  maxAnswerBytes: number
  signal?: AbortSignal
}

export interface SocketAnswer {
  status: number
  text: string
}

/** One JSON exchange over a unix socket, or over TLS; rejects with the socket's own error, its `code` included. */
export function callUnixSocket(call: SocketCall): Promise<SocketAnswer> {
  const payload = call.body === undefined ? undefined : Buffer.from(JSON.stringify(call.body))
  return new Promise((resolve, reject) => {
    const send = call.secure ? secureRequest : request
    const outgoing = send({
      ...(call.secure ?? { socketPath: call.socketPath }),
      method: call.method,
      path: call.path,
      agent: false,
      timeout: call.timeoutMs,
      headers: {
        ...call.headers,
        ...(payload ? { 'content-type': 'application/json', 'content-length': payload.length } : {}),
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
      incoming.on('end', () =>
        resolve({ status: incoming.statusCode ?? 500, text: Buffer.concat(chunks).toString('utf8') }),
      )
    })
    outgoing.end(payload)
  })
}
