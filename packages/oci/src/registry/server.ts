import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { OciError } from '../errors.ts'
import { createFileStorage } from '../storage/file-storage.ts'
import type { Storage } from '../storage/storage.ts'
import { createRegistryHandler } from './handler.ts'
import type { RegistryOptions } from './handler.ts'

/** How much of a body may wait to be written. By itself Node stops reading after every piece, which makes a push slower. */
export const READ_AHEAD_BYTES = 256 * 1024

export interface RegistryServerOptions extends Omit<RegistryOptions, 'storage'> {
  dir: string
  /** What is in `dir`, where somebody else has opened it already. */
  storage?: Storage
  host: string
  port: number
  /** How long `close` lets requests in progress finish before it cuts them. */
  closeGraceMs?: number
  /** Asked first; true when it answers the request, which is then none of the distribution API. */
  beside?: (req: IncomingMessage, res: ServerResponse) => boolean
}

export interface RegistryServer {
  url: string
  host: string
  port: number
  close(): Promise<void>
}

/** A registry of its own, as an install has it. */
export const startRegistryServer = async (options: RegistryServerOptions): Promise<RegistryServer> => {
  const { dir, host, port, closeGraceMs = 5000, beside, ...rest } = options
  const storage = options.storage ?? (await createFileStorage(dir))
  const handle = createRegistryHandler({ ...rest, storage })
  const running = new Set<Promise<void>>()
  // A large push may take hours; what ends a request is silence, not its length.
  const server = createServer({ requestTimeout: 0, highWaterMark: READ_AHEAD_BYTES }, (req, res) => {
    if (beside?.(req, res)) return
    const answering = handle(req, res).finally(() => running.delete(answering))
    running.add(answering)
  })
  server.timeout = IDLE_MS
  await listen(server, host, port)
  const address = server.address() as AddressInfo
  const shown = address.family === 'IPv6' ? `[${address.address}]` : address.address
  return {
    url: `http://${shown}:${address.port}`,
    host,
    port: address.port,
    // A request whose connection is gone may still be writing; nothing does once this resolves.
    close: async () => {
      await close(server, closeGraceMs)
      await Promise.all(running)
    },
  }
}

const IDLE_MS = 60_000

const listen = (server: Server, host: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const fail = (cause: Error): void =>
      reject(
        new OciError(
          'UNAVAILABLE',
          `The registry cannot listen on ${host}:${port}; stop what uses it or choose another port`,
          { cause },
        ),
      )
    server.once('error', fail)
    server.listen(port, host, () => {
      server.off('error', fail)
      resolve()
    })
  })

const close = (server: Server, graceMs: number): Promise<void> =>
  new Promise((resolve) => {
    const cut = setTimeout(() => server.closeAllConnections(), graceMs)
    server.close(() => {
      clearTimeout(cut)
      resolve()
    })
    server.closeIdleConnections()
  })
