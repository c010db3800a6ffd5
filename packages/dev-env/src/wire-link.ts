import type { Duplex } from 'node:stream'
import { WebSocket } from 'ws'
import type { Direction } from './wire.ts'

/** One agent's connection with its counterpart to the server. Each direction keeps its order. */
export interface Link {
  send(direction: Direction, data: Buffer, isBinary: boolean): void
  destroy(): void
  ended: Promise<void>
}

/** Undefined: the frame is dropped. */
export type Pass = (direction: Direction, data: Buffer, isBinary: boolean) => Promise<Buffer | undefined>

/** The server is reached first, so that an agent sees a server that is away as one that is away. */
export async function createLink(
  url: URL,
  pass: Pass,
  accept: (take: (agent: WebSocket) => void) => void,
  socket: Duplex,
): Promise<Link> {
  url.protocol = 'ws:'
  const server = new WebSocket(url, { perMessageDeflate: false })
  // What the server says before the agent is accepted must not be lost.
  const early: [Buffer, boolean][] = []
  const keep = (data: Buffer, isBinary: boolean) => void early.push([data, isBinary])
  server.on('message', keep)
  await new Promise<void>((resolve, reject) => {
    server.once('open', resolve)
    server.once('error', reject)
  })
  socket.once('close', () => server.terminate())
  server.on('error', () => server.terminate())
  const agent = await new Promise<WebSocket>((resolve) => accept(resolve))
  agent.on('error', () => agent.terminate())
  server.off('message', keep)
  const toServer = pipe(agent, server, (data, isBinary) => pass('toServer', data, isBinary))
  const toAgent = pipe(server, agent, (data, isBinary) => pass('toAgent', data, isBinary))
  for (const [data, isBinary] of early) toAgent.push(data, isBinary)
  return {
    send: (direction, data, isBinary) =>
      (direction === 'toServer' ? server : agent).send(data, { binary: isBinary }),
    destroy() {
      agent.terminate()
      server.terminate()
    },
    ended: Promise.all([toServer.ended, toAgent.ended]).then(() => undefined),
  }
}

function pipe(
  from: WebSocket,
  to: WebSocket,
  pass: (data: Buffer, isBinary: boolean) => Promise<Buffer | undefined>,
) {
  let work: Promise<void> = Promise.resolve()
  const push = (data: Buffer, isBinary: boolean) => {
    work = work.then(async () => {
      const passed = await pass(data, isBinary)
      if (passed && to.readyState === WebSocket.OPEN) to.send(passed, { binary: isBinary })
    })
  }
  from.on('message', push)
  const ended = new Promise<void>((resolve) => {
    from.once('close', (code, reason) => {
      void work.finally(() => {
        if (code === 1005 || code === 1006) to.terminate()
        else to.close(code, reason)
        resolve()
      })
    })
  })
  return { push, ended }
}
