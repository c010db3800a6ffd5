import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A TCP way that can be cut and stalled, so that a server sees its database go away, or an agent its server. */
export interface Relay {
  url: string
  /** Every connection breaks and none is taken. */
  cut(): void
  /** Connections stay and new ones are taken, but no byte passes. */
  stall(): void
  restore(): void
  /** Everything that came from the side that dials, once it was told to listen. */
  listen(): () => string
  close(): Promise<void>
}

export async function startRelay(targetUrl: string): Promise<Relay> {
  const target = new URL(targetUrl)
  const sockets = new Set<Socket>()
  let mode: 'open' | 'cut' | 'stalled' = 'open'
  let heard: Buffer[] | undefined
  const keep = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.on('close', () => sockets.delete(socket))
    return socket
  }
  const server = createServer((incoming) => {
    keep(incoming)
    if (mode === 'cut') return void incoming.destroy()
    const outgoing = keep(connect(Number(target.port), target.hostname))
    incoming.on('data', (bytes: Buffer) => {
      heard?.push(bytes)
      if (mode === 'open') outgoing.write(bytes)
    })
    outgoing.on('data', (bytes) => mode === 'open' && incoming.write(bytes))
    incoming.on('close', () => outgoing.destroy())
    outgoing.on('close', () => incoming.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(targetUrl)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  const breakAll = () => sockets.forEach((socket) => socket.destroy())
  return {
    url: url.toString(),
    cut() {
      mode = 'cut'
      breakAll()
    },
    stall: () => void (mode = 'stalled'),
    restore() {
      // What was dropped while stalled cannot be made good: those connections end.
      if (mode === 'stalled') breakAll()
      mode = 'open'
    },
    listen() {
      const all: Buffer[] = (heard = [])
      return () => Buffer.concat(all).toString()
    },
    async close() {
      mode = 'cut'
      breakAll()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
