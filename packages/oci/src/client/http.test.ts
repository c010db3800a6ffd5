import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { RequestListener, Server } from 'node:http'
import { connect, createServer as listenWith } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterEach, describe, expect, it } from 'vitest'
import { readInSlabs, sendHttp } from './http.ts'

describe('a request', { timeout: 60_000 }, () => {
  const servers: Server[] = []
  afterEach(async () => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    }
  })

  const serve = async (listener: RequestListener) => {
    const server = createServer(listener).listen(0, '127.0.0.1')
    servers.push(server)
    await once(server, 'listening')
    const sockets = new Set<Socket>()
    server.on('connection', (socket: Socket) => sockets.add(socket))
    return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`), sockets }
  }

  it('brings every byte of a long answer over one connection, one answer after the other', async () => {
    const bytes = randomBytes(3_000_000)
    const { url, sockets } = await serve((_request, response) => response.end(bytes))
    for (let round = 0; round < 5; round++) {
      const { statusCode, body } = await sendHttp(url, { method: 'GET', headers: {} })
      expect(statusCode).toBe(200)
      expect((await buffer(body)).equals(bytes)).toBe(true)
    }
    expect(sockets.size).toBe(1)
  })

  it('that is answered before it is all sent stops sending, and tells the answer', async () => {
    const { url } = await serve((_request, response) => response.writeHead(507).end('full'))
    let isLeft = false
    const endless = new Readable({
      read() {
        this.push(Buffer.alloc(65_536))
      },
      destroy(error, done) {
        isLeft = true
        done(error)
      },
    })
    const answer = await sendHttp(url, { method: 'PUT', headers: {}, body: endless })
    expect(answer.statusCode).toBe(507)
    expect((await buffer(answer.body)).toString()).toBe('full')
    await expect.poll(() => isLeft, { timeout: 30_000 }).toBe(true)
  })

  it('whose body breaks ends with the reason, not with half a body', async () => {
    let complete: boolean | undefined
    let arrive = (): void => {}
    const arrived = new Promise<void>((resolve) => (arrive = resolve))
    const { url } = await serve((request) => {
      request.on('close', () => (complete = request.complete)).on('data', () => arrive())
    })
    const body = Readable.from(
      (async function* () {
        yield Buffer.alloc(1000)
        await arrived
        throw new Error('the source is gone')
      })(),
    )
    const headers = { 'content-length': '2000' }
    await expect(sendHttp(url, { method: 'PUT', headers, body })).rejects.toThrow('the source is gone')
    await expect.poll(() => complete, { timeout: 30_000 }).toBe(false)
  })

  it('ends when the other side says nothing, but not while it waits for its own reader or body', async () => {
    const bytes = randomBytes(8_000_000)
    const { url } = await serve((request, response) => {
      if (request.method === 'PUT') request.on('end', () => response.end()).resume()
      else if (request.url === '/slow') response.end(bytes)
    })
    const silenceMs = 1000
    await expect(sendHttp(url, { method: 'GET', headers: {}, silenceMs })).rejects.toThrow('silent')
    const get = await sendHttp(new URL('/slow', url), { method: 'GET', headers: {}, silenceMs })
    await passes(3 * silenceMs)
    expect((await buffer(get.body)).equals(bytes)).toBe(true)
    const late = Readable.from(
      (async function* () {
        yield Buffer.alloc(10)
        await passes(3 * silenceMs)
        yield Buffer.alloc(10)
      })(),
    )
    expect((await sendHttp(url, { method: 'PUT', headers: {}, body: late, silenceMs })).statusCode).toBe(200)
  })

  it('that is canceled ends at once, its answer too', async () => {
    const { url } = await serve((_request, response) => response.writeHead(200).write('begun'))
    const stop = new AbortController()
    const { body } = await sendHttp(url, { method: 'GET', headers: {}, signal: stop.signal })
    stop.abort()
    await expect(buffer(body)).rejects.toThrow('abort')
    const again = sendHttp(url, { method: 'GET', headers: {}, signal: stop.signal })
    await expect(again).rejects.toThrow('abort')
  })
})

describe('what a connection has read', () => {
  it('stays as it came while nobody has taken it', async () => {
    const server = listenWith((socket) =>
      socket.once('data', () => socket.write('second')).write('first '),
    ).listen(0)
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const socket = connect({ port, host: '127.0.0.1', onread: readInSlabs() })
    await expect.poll(() => socket.readableLength).toBe(6)
    socket.write('more')
    await expect.poll(() => socket.readableLength).toBe(12)
    expect(String(socket.read())).toBe('first second')
    socket.destroy()
    server.close()
  })
})

/** The time itself is what is tested. */
const passes = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
