import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { until } from './until.ts'
import { createWire, type Wire } from './wire.ts'

let http: Server
let heard: string[]
let server: WebSocket | undefined
let wire: Wire
let agent: WebSocket | undefined

beforeEach(async () => {
  heard = []
  http = createServer((_, answer) => answer.end('plain'))
  new WebSocketServer({ server: http }).on('connection', (socket) => {
    server = socket
    socket.on('message', (data, isBinary) => heard.push(isBinary ? 'binary' : (data as Buffer).toString()))
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  wire = await createWire(`http://127.0.0.1:${(http.address() as AddressInfo).port}`)
})

afterEach(async () => {
  agent?.terminate()
  await wire.close()
  http.closeAllConnections()
  await new Promise((resolve) => http.close(resolve))
})

async function connect(): Promise<WebSocket> {
  agent = new WebSocket(wire.url.replace('http', 'ws'))
  await once(agent, 'open')
  return agent
}

const frame = (type: string, number: number) => JSON.stringify({ type, number })

describe('the wire', () => {
  it('passes what nobody listens for, in its order, and remembers it', async () => {
    const socket = await connect()
    socket.send(frame('hello', 1))
    socket.send(Buffer.from('log bytes'), { binary: true })
    socket.send(frame('hello', 2))
    await until('three frames', () => heard.length === 3)
    expect(heard).toEqual([frame('hello', 1), 'binary', frame('hello', 2)])
    expect(wire.captured()).toContain('log bytes')
    expect(await (await fetch(wire.url)).text()).toBe('plain')
  })

  it('drops, changes and holds exactly the frame it was told to', async () => {
    const socket = await connect()
    wire.on('toServer', 'hello', ({ content }) => {
      if (content['number'] === 1) return 'drop'
      return content['number'] === 2 ? { instead: frame('hello', 20) } : 'pass'
    })
    const holding = wire.hold('toServer', 'late')
    socket.send(frame('late', 0))
    for (const number of [1, 2, 3]) socket.send(frame('hello', number))
    const held = await holding
    await until('the frames after it', () => heard.length === 2)
    held.deliver()
    await until('the one that was held', () => heard.length === 3)
    expect(heard).toEqual([frame('hello', 20), frame('hello', 3), frame('late', 0)])
  })

  it('lets no later frame pass while an action at a frame is not done', async () => {
    const socket = await connect()
    let go = () => undefined as void
    const done = new Promise<void>((resolve) => (go = resolve))
    const acted = wire.once(
      'toServer',
      'hello',
      () => true,
      () => done,
    )
    socket.send(frame('hello', 1))
    socket.send(frame('after', 2))
    await until('both to be at the wire', () => wire.capture.length >= 1)
    expect(heard).toEqual([])
    go()
    await acted
    await until('both frames', () => heard.length === 2)
  })

  it('refuses everybody while it is cut, and accepts them again when it is mended', async () => {
    const socket = await connect()
    wire.cut()
    await once(socket, 'close')
    await expect(connect()).rejects.toThrow(/socket hang up|ECONNRESET/)
    wire.mend()
    const back = await connect()
    wire.inject('toAgent', frame('made up', 1))
    const [data] = (await once(back, 'message')) as [Buffer]
    expect(data.toString()).toBe(frame('made up', 1))
  })

  it('ends the agent’s side when the server ends its own', async () => {
    const socket = await connect()
    await until('the server to have it', () => server !== undefined)
    server?.terminate()
    await once(socket, 'close')
    expect(socket.readyState).toBe(socket.CLOSED)
  })
})
