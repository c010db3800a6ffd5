import http from 'node:http'
import net from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ApiWorld, socketOf, type ApiJob } from '../testing/api-world.ts'

let world: ApiWorld
let registry: net.Server
let port: number

/** Answers each line, and says so to whoever connects. */
const serveEcho = async (): Promise<net.Server> => {
  const server = net.createServer((socket) => socket.on('error', () => undefined).pipe(socket))
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return server
}

beforeAll(async () => {
  world = await ApiWorld.create()
  registry = await serveEcho()
  port = (registry.address() as net.AddressInfo).port
  const proxy = { httpsProxy: undefined, httpProxy: undefined, noProxy: undefined }
  await world.start({
    registry: { url: `http://127.0.0.1:${port}`, keyFile: '/no/key' },
    proxy,
  })
})
afterAll(async () => {
  await world.close()
  registry.close()
})

const closedJob = () => world.job({ network: { mode: 'internal', names: [] } })

interface Tunnel {
  status: number
  text: string
  socket: net.Socket
}

function connect(job: ApiJob, place: string, token = job.spec.files['token']): Promise<Tunnel> {
  return new Promise((resolve, reject) => {
    const request = http.request({
      socketPath: socketOf(job),
      method: 'CONNECT',
      path: place,
      headers: { authorization: `Bearer ${token}` },
    })
    request.on('error', reject)
    request.on('connect', (answer, socket, head) => {
      const status = answer.statusCode ?? 0
      if (status === 200) return resolve({ status, text: '', socket })
      let text = head.toString()
      socket.on('data', (bytes: Buffer) => (text += bytes.toString()))
      socket.on('end', () => resolve({ status, text, socket }))
      return undefined
    })
    request.end()
  })
}

describe('the relay of the job API', () => {
  it('carries bytes both ways to the registry of a job that may reach nothing else', async () => {
    const job = await closedJob()
    const { status, socket } = await connect(job, `127.0.0.1:${port}`)
    expect(status).toBe(200)
    const echoed = new Promise<string>((done) => socket.once('data', (bytes) => done(bytes.toString())))
    socket.write('hello')
    expect(await echoed).toBe('hello')
    const closed = new Promise((done) => socket.once('close', done))
    socket.end()
    await closed
    await world.end(job)
  })

  it('says no in words, with a code, and to a job that it does not know', async () => {
    const job = await closedJob()
    const refused = await connect(job, '169.254.169.254:80')
    expect(refused.status).toBe(403)
    expect(JSON.parse(refused.text)).toMatchObject({
      error: { code: 'network_refused', message: expect.stringContaining('169.254.169.254:80') },
    })
    expect((await connect(job, 'nonsense')).status).toBe(400)
    expect((await connect(job, `127.0.0.1:${port}`, 'another-token')).status).toBe(401)
    await world.end(job)
    expect((await connect(job, `127.0.0.1:${port}`)).status).toBe(401)
  })

  it('connects nobody to this machine by a name that was not declared as that', async () => {
    const job = await world.job({ network: { mode: 'egress', names: [] } })
    for (const place of [
      `127.0.0.1:${port + 1}`,
      'localhost:1',
      '[::1]:1',
      '[::ffff:127.0.0.1]:1',
      '0.0.0.0:1',
    ]) {
      const { status, text } = await connect(job, place)
      expect([place, status]).toEqual([place, 403])
      expect(text).toContain('address_refused')
    }
    await world.end(job)
  })

  it('cuts what it carries when the agent stops', async () => {
    const job = await closedJob()
    const { socket } = await connect(job, `127.0.0.1:${port}`)
    const closed = new Promise((done) => socket.once('close', done))
    socket.on('error', () => undefined)
    await world.stop()
    await expect(closed).resolves.toBe(false)
  })
})
