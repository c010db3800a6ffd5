import { randomBytes } from 'node:crypto'
import { createServer, request as sendRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import net from 'node:net'
import type { Duplex } from 'node:stream'
import type { Dial } from '../sdk/plugin.ts'
import { openTunnel, TunnelError, type TunnelOptions } from './tunnel.ts'

export interface JobNetworkOptions extends TunnelOptions {
  /** The agent's relay is the only way out. */
  isClosed: boolean
  /** `host:port` of this namespace's own loopback, each of which leads to the same address at the agent. */
  forwards: string[]
  /** Where programs find the proxy: `host:port`, or `any` where others share the loopback. */
  proxy: string | undefined
  log: (line: string) => void
}

export interface JobNetwork {
  /** What it adds to the environment of the programs that the job starts. */
  env: Record<string, string>
  /** Where the job's own network leads nowhere, the way out for what reads no environment. */
  dial?: Dial
}

/**
 * The inner end of the agent's relay: registry addresses answer on this namespace's loopback as they do on the
 * machine's, and everything else that tools want goes through a proxy that they find in their environment.
 */
export async function openJobNetwork(options: JobNetworkOptions): Promise<JobNetwork> {
  const { forwards, proxy, isClosed } = options
  await Promise.all(forwards.map((place) => forward(options, place)))
  const dial: Dial = (place, signal) => openTunnel(options, place, signal)
  const way = isClosed ? { dial } : {}
  if (proxy === undefined) return { env: {}, ...way }
  const isShared = proxy === 'any'
  const password = isShared ? randomBytes(24).toString('base64url') : undefined
  const { host, port } = splitPlace(isShared ? '127.0.0.1:0' : proxy)
  const at = await serveProxy(options, password, host, port)
  const url = `http://${password === undefined ? '' : `job:${password}@`}127.0.0.1:${at}`
  return { env: isShared ? proxyVariables(url) : {}, ...way }
}

/** Tools read one spelling or the other. */
function proxyVariables(url: string): Record<string, string> {
  return { HTTPS_PROXY: url, HTTP_PROXY: url, https_proxy: url, http_proxy: url }
}

/** Without one that cannot be, such as a port below 1024 that an output names, the job goes on. */
async function forward(options: JobNetworkOptions, place: string): Promise<void> {
  const { host, port } = splitPlace(place)
  const server = net.createServer({ allowHalfOpen: true }, (socket) => carry(options, place, socket))
  await listening(server, () => server.listen(port, host)).catch((error: Error) =>
    options.log(`warning: ${place} is reached through HTTP_PROXY alone here (${error.message})`),
  )
}

async function serveProxy(
  options: JobNetworkOptions,
  password: string | undefined,
  host: string,
  port: number,
): Promise<number> {
  const isAllowed = ({ headers }: IncomingMessage) =>
    password === undefined ||
    headers['proxy-authorization'] === `Basic ${Buffer.from(`job:${password}`).toString('base64')}`
  const server = createServer((request, response) => {
    if (isAllowed(request)) passOn(options, request, response)
    else response.writeHead(407, { 'proxy-authenticate': 'Basic' }).end()
  })
  server.on('connect', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => undefined)
    if (!isAllowed(request)) {
      socket.end(
        'HTTP/1.1 407 Proxy authentication required\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n',
      )
      return
    }
    carry(options, request.url ?? '', socket, head)
  })
  server.on('clientError', (_error, socket) => socket.destroy())
  await listening(server, () => server.listen(port, host))
  return (server.address() as net.AddressInfo).port
}

/** With a head the caller asked by CONNECT and wants an answer; without it, it believes to be there already. */
function carry(options: JobNetworkOptions, place: string, socket: Duplex, head?: Buffer): void {
  socket.on('error', () => undefined)
  socket.pause()
  openTunnel(options, place).then(
    (tunnel) => {
      if (head !== undefined) socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      if (head !== undefined && head.byteLength > 0) tunnel.write(head)
      socket.pipe(tunnel)
      tunnel.pipe(socket)
      socket.once('close', () => tunnel.destroy())
      tunnel.once('close', () => socket.destroy())
    },
    (error: unknown) => {
      const { status, line } = failureOf(error)
      options.log(line)
      if (head === undefined) socket.destroy()
      else socket.end(`HTTP/1.1 ${status} Not connected\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`)
    },
  )
}

/** `GET http://host/…`, as tools ask a proxy for what is not encrypted. */
function passOn(options: JobNetworkOptions, request: IncomingMessage, response: ServerResponse): void {
  const url = URL.canParse(request.url ?? '') ? new URL(request.url ?? '') : undefined
  if (url?.protocol !== 'http:') {
    response.writeHead(400).end()
    return
  }
  const fail = (error: unknown) => {
    const { status, line } = failureOf(error)
    options.log(line)
    if (!response.headersSent) response.writeHead(status).end(`${line}\n`)
    else response.destroy()
  }
  openTunnel(options, `${url.hostname}:${url.port || 80}`).then((tunnel) => {
    const { 'proxy-authorization': _password, 'proxy-connection': _hop, ...headers } = request.headers
    const onward = sendRequest({
      createConnection: () => tunnel,
      method: request.method,
      path: `${url.pathname}${url.search}`,
      headers: { ...headers, host: url.host, connection: 'close' },
    })
    onward.once('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    onward.once('error', fail)
    response.once('close', () => onward.destroy())
    request.pipe(onward)
  }, fail)
}

function failureOf(error: unknown): { status: number; line: string } {
  if (error instanceof TunnelError) return { status: error.status, line: error.line }
  return { status: 502, line: `error unreachable: ${(error as Error).message}` }
}

function splitPlace(place: string): { host: string; port: number } {
  const at = place.lastIndexOf(':')
  return { host: place.slice(0, at).replaceAll(/^\[|\]$/g, ''), port: Number(place.slice(at + 1)) }
}

function listening(server: net.Server, open: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.once('listening', resolve)
    open()
    server.unref()
  })
}
