import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'

/** Passes bytes to a server and cuts every connection once, when a direction has seen enough of them. */
export interface CuttingProxy {
  url: string
  sent(): { up: number; down: number }
  cuts(): number
  close(): Promise<void>
}

export const startCuttingProxy = async (
  target: string,
  cutAfter: { up?: number; down?: number },
): Promise<CuttingProxy> => {
  const { hostname, port } = new URL(target)
  const seen = { up: 0, down: 0 }
  const sockets = new Set<Socket>()
  let cuts = 0
  const cutIfDue = (direction: 'up' | 'down', bytes: number): boolean => {
    seen[direction] += bytes
    const due = cuts === 0 && seen[direction] > (cutAfter[direction] ?? Infinity)
    if (!due) return false
    cuts++
    for (const socket of sockets) socket.destroy()
    return true
  }
  const forward = (from: Socket, to: Socket, direction: 'up' | 'down'): void => {
    sockets.add(from)
    from.on('data', (chunk) => {
      if (cutIfDue(direction, chunk.byteLength)) return
      if (!to.write(chunk)) {
        from.pause()
        to.once('drain', () => from.resume())
      }
    })
    from.on('end', () => to.end())
    from.on('error', () => to.destroy())
    from.on('close', () => {
      sockets.delete(from)
      to.destroy()
    })
  }
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    forward(client, upstream, 'up')
    forward(upstream, client, 'down')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sent: () => ({ ...seen }),
    cuts: () => cuts,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
}
