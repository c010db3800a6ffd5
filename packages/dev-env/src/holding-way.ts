import { createServer, connect, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'

/** A way to a server on which a large answer can be held at an exact byte. */
export interface HoldingWay {
  url: string
  /** Bytes that came back over connections that carried more than a little, so blobs and not talk. */
  bulkBytes(): number
  /** Holds the first answer that gets so far; resolves when it is held. */
  holdAt(bytes: number): Promise<void>
  /** Whether whoever was held has gone away meanwhile. */
  isLeft(): boolean
  letGo(): void
  close(): Promise<void>
}

/** What a connection that only talks does not come to in a test. */
const TALK_BYTES = 200_000

export async function createHoldingWay(to: string): Promise<HoldingWay> {
  const target = new URL(to)
  const carried = new Map<Socket, number>()
  const sockets = new Set<Socket>()
  let held: Socket | undefined
  let hold: { at: number; reached: () => void } | undefined
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
    }
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
    client.pipe(upstream)
    upstream.on('data', (chunk: Buffer) => {
      const bytes = (carried.get(upstream) ?? 0) + chunk.byteLength
      carried.set(upstream, bytes)
      if (!client.write(chunk)) {
        upstream.pause()
        client.once('drain', () => held !== upstream && upstream.resume())
      }
      if (hold === undefined || bytes < hold.at) return
      held = upstream
      upstream.pause()
      hold.reached()
      hold = undefined
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bulkBytes: () =>
      [...carried.values()].filter((bytes) => bytes > TALK_BYTES).reduce((sum, b) => sum + b, 0),
    holdAt: (at) => new Promise((reached) => (hold = { at, reached })),
    isLeft: () => held?.destroyed === true,
    letGo: () => {
      held?.resume()
      held = undefined
      hold = undefined
    },
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
