import { request } from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'

export interface RawAnswer {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
  code: string | undefined
}

/** Sends the path as it is, unlike clients that tidy it up first; one connection per request. */
export const rawRequest = (
  url: string,
  method: string,
  path: string,
  options: { bearer?: string; headers?: Record<string, string>; body?: Uint8Array } = {},
): Promise<RawAnswer> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    const authorization = options.bearer === undefined ? {} : { authorization: `Bearer ${options.bearer}` }
    const length = options.body === undefined ? {} : { 'content-length': options.body.byteLength }
    const headers = { ...authorization, ...length, ...options.headers }
    const req = request({ hostname, port, method, path, headers, agent: false }, (res) => {
      const chunks: Buffer[] = []
      res.on('data', (chunk: Buffer) => chunks.push(chunk))
      res.on('error', reject)
      res.on('end', () => {
        const body = Buffer.concat(chunks)
        resolve({ status: res.statusCode ?? 0, headers: res.headers, body, code: codeOf(body) })
      })
    })
    req.on('error', reject)
    req.end(options.body)
  })

const codeOf = (body: Buffer): string | undefined => {
  try {
    return (JSON.parse(body.toString()) as { errors?: { code: string }[] }).errors?.[0]?.code
  } catch {
    return undefined
  }
}
