import { MAX_CONTROL_FRAME } from '@tenon/protocol'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { WebSocketServer } from 'ws'
import type { Context } from '../context.ts'
import { corked } from '../ground/corked.ts'
import { Connection } from './connection.ts'
import type { Sessions } from './sessions.ts'

const PATH = '/agent/v1/channel'

/** The WebSocket end of the agent channel. Compression is off: it costs memory per connection, and logs are small. */
export function createUpgrader(context: Context, sessions: Sessions) {
  const server = new WebSocketServer({
    noServer: true,
    // Up to twice the limit a frame is read and refused in words; what is larger only gets a close code.
    maxPayload: 2 * MAX_CONTROL_FRAME,
    perMessageDeflate: false,
    clientTracking: true,
  })
  return {
    handle(request: IncomingMessage, socket: Duplex, head: Buffer): void {
      // Before ws takes over, nobody else listens for a peer that resets.
      socket.on('error', () => socket.destroy())
      if (request.url?.split('?')[0] !== PATH) {
        socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
        return
      }
      server.handleUpgrade(
        request,
        socket,
        head,
        (ws) => void new Connection(context, sessions, ws, corked(socket)),
      )
    },
    async close(): Promise<void> {
      // What was said last is still on its way out.
      await nextTurn()
      for (const ws of server.clients) ws.terminate()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
