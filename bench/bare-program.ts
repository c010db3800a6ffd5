import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import WebSocket, { WebSocketServer } from 'ws'
import { serveCommands } from './child.ts'
import { collectedMemory } from './memory.ts'

/** The baselines: a WebSocket server that echoes and nothing else, or a process with one open WebSocket. */
const http = createServer()
const options = { noServer: true, perMessageDeflate: false, maxPayload: 1_048_576 }
const server = new WebSocketServer(options)
http.on('upgrade', (request, socket, head) =>
  server.handleUpgrade(request, socket, head, (ws) => {
    ws.on('message', (data, isBinary) => ws.send(data, { binary: isBinary }))
    ws.on('error', () => ws.terminate())
  }),
)
let client: WebSocket | undefined

export type BareCommands = typeof handlers
const handlers = {
  async listen() {
    http.listen(0, '127.0.0.1', 10_000)
    await once(http, 'listening')
    return `ws://127.0.0.1:${(http.address() as AddressInfo).port}/`
  },
  async connect(url: string) {
    client = new WebSocket(url, { perMessageDeflate: false })
    await once(client, 'open')
  },
  memory: () => collectedMemory(),
}

serveCommands(handlers, async () => client?.terminate())
