import { randomBytes } from 'node:crypto'
import http from 'node:http'
import net from 'node:net'
import { learnKeys, type KnownKeys } from '@tenon/core'
import { MAX_CONTROL_FRAME, type ServerFrame } from '@tenon/protocol'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { makeSigningKey, signerOf, verify } from '../ground/crypto.ts'
import { ContractServer, newId } from '../testing/contract-server.ts'
import { waitUntil } from '../testing/wait-until.ts'
import { createChannel, type Channel, type ChannelOptions } from './channel.ts'

let server: ContractServer
let channels: Channel[]
let received: ServerFrame[]
let welcomes: number
let known: KnownKeys
const log = pino({ level: 'silent' })

beforeEach(async () => {
  server = await ContractServer.start()
  channels = []
  received = []
  welcomes = 0
  known = { pinned: new Map([[server.current.link.keyId, server.current.link.publicKey]]), ended: new Map() }
})
afterEach(async () => {
  for (const channel of channels) await channel.stop()
  await server.close()
})

function open(changes: Partial<ChannelOptions> = {}): Channel {
  const key = makeSigningKey()
  server.agentPublicKey = key.publicKey
  const channel = createChannel({
    serverUrl: server.url,
    agentId: server.agentId,
    serverId: server.serverId,
    bootCounter: 1,
    bootId: randomBytes(18).toString('base64url'),
    sign: signerOf(key),
    keys: () => known,
    onKeys: async (offered) => void (known = learnKeys(known, offered, verify, Date.now())),
    hello: () => ({
      version: '1',
      features: [],
      runtime: { name: 'fake', confinement: 'none', warnings: [] },
      slots: 1,
      inventory: [],
      auditHead: null,
      recipient: null,
    }),
    heartbeat: () => ({ running: 0, outboxBytes: 0, dropped: 0 }),
    onWelcome: () => void welcomes++,
    onFrame: (frame) => void received.push(frame),
    onDisconnect: () => undefined,
    proxy: { httpsProxy: undefined, httpProxy: undefined, noProxy: undefined },
    log,
    clock: Date.now,
    random: () => 0.01,
    ...changes,
  })
  channels.push(channel)
  channel.start()
  return channel
}

describe('a challenge', () => {
  it('of an unknown key is never answered, and the server is asked again', async () => {
    const stranger = { link: { ...server.current.link, keyId: newId('key') }, key: makeSigningKey() }
    server.onOpen = (socket, { nonce }) => server.challenge(socket, nonce, 'AAAA', stranger)
    open()
    await waitUntil('three tries', () => server.all('open').length >= 3)
    expect(server.all('hello')).toEqual([])
    server.onOpen = undefined
    await server.session()
  })

  it('signed for another nonce, as a replay is, is never answered', async () => {
    server.onOpen = (socket) => server.challenge(socket, 'an older nonce', 'AAAA')
    open()
    await waitUntil('three tries', () => server.all('open').length >= 3)
    expect(server.all('hello')).toEqual([])
  })

  it('of a key that a pinned one vouches for is answered, and that key is pinned', async () => {
    server.rotateKey()
    server.rotateKey()
    open()
    await server.session()
    expect([...known.pinned.keys()]).toEqual(server.keys.map(({ link }) => link.keyId))
  })

  it('is needed: a welcome without one is not believed', async () => {
    server.onOpen = (socket) =>
      socket.send(
        JSON.stringify({
          type: 'welcome',
          sessionId: newId('session'),
          heartbeatSeconds: 1,
          leaseSeconds: 1,
          verdicts: [],
          auditHead: null,
          eventSeq: 0,
          at: new Date().toISOString(),
        }),
      )
    const channel = open()
    await server.heard('open')
    expect(welcomes).toBe(0)
    expect(channel.isOpen).toBe(false)
  })
})

describe('an open channel', () => {
  it('ignores unknown, malformed and binary frames and goes on', async () => {
    open()
    await server.session()
    const bad = ['{"type":"from.the.future"}', '{"type":"job.cancel","jobId":7}', '{', '[]', 'null', '"x"']
    for (const text of bad) server.socket!.send(text)
    server.socket!.send(Buffer.from([1, 2, 3]))
    server.send({ type: 'job.cancel', jobId: newId('job'), fence: 1 })
    await waitUntil('the good frame', () => received.length === 1)
    expect(server.sessions).toBe(1)
  })

  it('tells a newer server which frame it does not know, and reads the rest of what it says', async () => {
    open()
    await server.session()
    server.socket!.send(JSON.stringify({ type: 'job.levitate', jobId: 'x' }))
    expect(await server.heard('unsupported')).toMatchObject({ frame: 'job.levitate', code: 'unknown_frame' })
    server.socket!.send(Buffer.from([9, 0, 0]))
    const answered = () => server.all('unsupported').find(({ frame }) => frame === 'binary.9')
    expect(await waitUntil('the answer', answered)).toMatchObject({ code: 'unknown_frame' })
    server.socket!.send(JSON.stringify({ type: 'job.cancel', jobId: newId('job'), fence: 1, gently: true }))
    await waitUntil('the frame', () => received.length === 1)
    expect(server.sessions).toBe(1)
  })

  it('is not made with a server whose version it does not speak', async () => {
    server.wire = 99
    open()
    await waitUntil('three tries', () => server.all('open').length >= 3)
    expect(server.all('hello')).toEqual([])
  })

  it('survives a handler that throws', async () => {
    open({
      onFrame: (frame) => {
        received.push(frame)
        throw new Error('a mistake')
      },
    })
    await server.session()
    const frame: ServerFrame = { type: 'job.cancel', jobId: newId('job'), fence: 1 }
    server.send(frame)
    server.send(frame)
    await waitUntil('both', () => received.length === 2)
    expect(server.sessions).toBe(1)
  })

  it('beats, and drops a server that says nothing for three heartbeats', async () => {
    server.onHello = () => ({ heartbeatSeconds: 0.02 })
    server.onFrame = (frame) => frame.type === 'heartbeat'
    open()
    await server.session(2)
    expect(server.all('heartbeat').length).toBeGreaterThanOrEqual(3)
  })

  it('reconnects after a frame that is larger than allowed', async () => {
    open()
    await server.session()
    server.socket!.send(`"${'x'.repeat(MAX_CONTROL_FRAME)}"`)
    await server.session(2)
    expect(received).toEqual([])
  })

  it('does not send a frame that is larger than allowed', async () => {
    const channel = open()
    await server.session()
    await waitUntil('the welcome', () => channel.isOpen)
    const message = 'x'.repeat(MAX_CONTROL_FRAME)
    expect(channel.send({ type: 'secret.stored', secretId: 1, ok: false, message })).toBe(false)
    expect(channel.send({ type: 'secret.stored', secretId: 1, ok: false, message: '' })).toBe(true)
  })

  it('comes back after every kind of end that is not final', async () => {
    open()
    const ends = [
      () => server.cut(),
      () => server.socket!.close(),
      () => server.send({ type: 'reject', code: 'busy', message: '' }),
      () => server.send({ type: 'reject', code: 'stopping', message: '' }),
    ]
    for (const [index, end] of ends.entries()) {
      await server.session(index + 1)
      end()
    }
    await server.session(ends.length + 1)
    expect(welcomes).toBeGreaterThanOrEqual(ends.length)
  })
})

describe('a rejection', () => {
  it('as unknown is believed only when it is said again and again', async () => {
    server.onHello = () => {
      const isKnown = server.all('hello').length === 3
      if (!isKnown) server.send({ type: 'reject', code: 'unknown_agent', message: '' })
      return {}
    }
    const channel = open({ patience: { tries: 3, ms: 0 } })
    await waitUntil('the one session', () => channel.isOpen)
    server.cut()
    expect(await channel.ended).toBe('unknown_agent')
    expect(server.all('hello')).toHaveLength(6)
  })

  it('by a server that did not prove itself does not end the agent at once', async () => {
    server.onOpen = (socket) => socket.send(JSON.stringify({ type: 'reject', code: 'revoked', message: '' }))
    open()
    await waitUntil('several tries', () => server.all('open').length >= 3)
    server.onOpen = undefined
    await server.session()
    expect(server.all('hello')).toHaveLength(1)
  })
})

describe('a server that is away', () => {
  it('is tried again whatever it answers, until it is back', async () => {
    let attempts = 0
    const impostor = http.createServer((_request, response) => void response.writeHead(404).end())
    impostor.on('upgrade', (_request, socket) => {
      attempts++
      socket.on('error', () => undefined)
      socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n')
    })
    await new Promise<void>((resolve) => impostor.listen(0, '127.0.0.1', resolve))
    const { port } = impostor.address() as net.AddressInfo
    const channel = open({ serverUrl: `http://127.0.0.1:${port}` })
    await waitUntil('three tries', () => attempts >= 3)
    await channel.stop()
    expect(await channel.ended).toBeUndefined()
    impostor.closeAllConnections()
    await new Promise((resolve) => impostor.close(resolve))
  })
})

describe('a proxy', () => {
  it('carries the channel, and NO_PROXY goes around it', async () => {
    let tunnels = 0
    const proxy = http.createServer()
    proxy.on('connect', (request, client: net.Socket, head: Buffer) => {
      tunnels++
      const [host, port] = request.url!.split(':')
      const upstream = net.connect(Number(port), host, () => {
        client.write('HTTP/1.1 200 OK\r\n\r\n')
        upstream.write(head)
        upstream.pipe(client).pipe(upstream)
      })
      upstream.on('error', () => client.destroy())
      client.on('error', () => upstream.destroy())
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const httpProxy = `http://127.0.0.1:${(proxy.address() as net.AddressInfo).port}`
    const through = open({ proxy: { httpProxy, httpsProxy: undefined, noProxy: undefined } })
    await server.session()
    expect(tunnels).toBe(1)
    await through.stop()
    const around = open({ proxy: { httpProxy, httpsProxy: undefined, noProxy: '127.0.0.0/8' } })
    await server.session(2)
    await around.stop()
    expect(tunnels).toBe(1)
    proxy.closeAllConnections()
    await new Promise((resolve) => proxy.close(resolve))
  })
})
