import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import type { Json, JobManifest } from '@tenon/core'
import type { ComponentJobConfig } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pino } from 'pino'
import { ApiWorld, socketOf, type ApiJob } from '../testing/api-world.ts'
import { newId } from '../testing/contract-server.ts'
import { createRelay, MAX_CONNECTIONS, type RelayedJob } from './relay.ts'

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

function operationOf(component: string, dependencies: string[], urls: string[] = []) {
  const digest = `sha256:${'0'.repeat(64)}`
  const at = { type: 'script', status: 'deployed', buildId: newId('build'), varName: null }
  const there = dependencies.map((name) => [name, { ...at, artifact: { repository: 'apps/shop', digest } }])
  const probes = urls.map((url) => ({ name: '', type: 'http' as const, url }))
  const config: ComponentJobConfig & { component: { fake: Json } } = {
    component: { fake: { deploy: { untilReleased: true } } },
    type: 'helm_chart',
    install: { id: newId('install'), name: 'acme' },
    app: { name: 'shop', version: 1 },
    sandbox: { type: 'local', outputs: {} },
    inputs: {},
    sensitiveInputs: [],
    secrets: [],
    absentSecrets: {},
    dependencies,
    components: Object.fromEntries(there) as ComponentJobConfig['components'],
    overrides: {},
    health: { probes, blockDeploy: true, stabilizationSeconds: 0 },
    policies: [],
  }
  const plugin = { name: 'helm_chart', repository: 'plugins/helm_chart', digest }
  return {
    operation: 'deploy',
    plugin,
    component,
    artifacts: [],
    approvedPlan: null,
    config: config as unknown as { [key: string]: Json },
    configDigest: digest,
  } satisfies JobManifest['operations'][number]
}

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

/** A proxy that answers when it is told to; what is dialed through it stays open until the relay ends it. */
async function slowProxy() {
  let dialed: (socket: net.Socket) => void
  const asked = new Promise<net.Socket>((done) => (dialed = done))
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => dialed(socket.resume()))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const url = `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`
  const relay = createRelay({
    proxy: { httpsProxy: url, httpProxy: url, noProxy: undefined },
    log: pino({ level: 'silent' }),
  })
  return { server, asked, relay }
}

/** Both ends of a job's connection, real sockets. */
async function jobSockets() {
  const server = net.createServer({ allowHalfOpen: true })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const accepted = once(server, 'connection') as Promise<[net.Socket]>
  const job = net.connect((server.address() as net.AddressInfo).port, '127.0.0.1')
  const [socket] = await accepted
  socket.on('error', () => undefined)
  server.close()
  return { job, socket }
}

const anyJob = (): RelayedJob => ({
  jobId: 'job_relay',
  rules: {
    network: { mode: 'egress', names: [] },
    registryUrl: 'http://127.0.0.1:5000',
    serverUrl: 'http://127.0.0.1:4000',
    clusters: [],
    mayProbe: true,
  },
  declared: async () => ({ outputs: [], probes: [] }),
})
/** Unlike `once`, whatever error came before. */
const closing = (socket: net.Socket) => new Promise<void>((done) => socket.once('close', () => done()))
const asking = (url: string) => ({ url }) as http.IncomingMessage

describe('what is dialed for a job', () => {
  it.each(['the job was reset', 'the agent stopped'] as const)(
    'is closed when %s while the dial was under way',
    async (cause) => {
      const { server, asked, relay } = await slowProxy()
      const { job, socket } = await jobSockets()
      const connecting = relay.connect(anyJob(), asking('far.example:443'), socket, Buffer.alloc(0))
      const dialed = await asked
      const gone = closing(socket)
      if (cause === 'the job was reset') job.resetAndDestroy()
      else relay.close()
      await gone
      const closed = closing(dialed)
      dialed.write('HTTP/1.1 200 OK\r\n\r\n')
      await connecting
      // Half open on this side, so only the relay's end of it can close it.
      dialed.once('end', () => dialed.end())
      await expect(closed).resolves.toBeUndefined()
      job.destroy()
      server.close()
    },
  )

  it('is nothing more once the agent stops', async () => {
    const { server, relay } = await slowProxy()
    const { job, socket } = await jobSockets()
    relay.close()
    const gone = closing(socket)
    await relay.connect(anyJob(), asking('far.example:443'), socket, Buffer.alloc(0))
    await expect(gone).resolves.toBeUndefined()
    job.destroy()
    server.close()
  })

  it('is bounded per job, in words, and free again when connections end', async () => {
    const { server, relay } = await slowProxy()
    const ask = async () => {
      const { job, socket } = await jobSockets()
      let said = ''
      job.on('data', (bytes: Buffer) => (said += bytes.toString()))
      void relay.connect(anyJob(), asking('far.example:443'), socket, Buffer.alloc(0))
      return { job, socket, answered: once(job, 'end').then(() => said) }
    }
    const many = await Promise.all(Array.from({ length: MAX_CONNECTIONS }, ask))
    const refused = await ask()
    expect(await refused.answered).toContain('too_many_connections')
    const gone = closing(many[0]!.socket)
    many[0]!.job.resetAndDestroy()
    await gone
    const again = await ask()
    const other = await ask()
    expect(await other.answered).toContain('too_many_connections')
    for (const { job } of [...many, again, refused, other]) job.destroy()
    relay.close()
    server.close()
  })
})

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

  describe('lets a job reach what the install told', () => {
    let service: net.Server
    let place: string
    const deployOf = (component: string, dependencies: string[], changes: Partial<JobManifest> = {}) =>
      world.job({ operations: [operationOf(component, dependencies)], ...changes })
    const give = async (job: ApiJob, component: string, url: string) => {
      const body = JSON.stringify({ url: { sensitive: false, value: url } })
      expect((await world.call(job, 'PUT', `/v1/outputs?component=${component}`, { body })).status).toBe(200)
    }
    const narrow = { network: { mode: 'egress' as const, names: ['api.example.com:443'] } }

    beforeAll(async () => {
      service = await serveEcho()
      place = `127.0.0.1:${(service.address() as net.AddressInfo).port}`
    })
    afterAll(() => service.close())

    it('by outputs of its dependencies, on this machine too, and forwards the port to it', async () => {
      const before = await deployOf('api', ['db'], narrow)
      expect((await connect(before, place)).status).toBe(403)
      const db = await deployOf('db', [])
      await give(db, 'db', `http://${place}/path`)
      const job = await deployOf('api', ['db'], narrow)
      const reached = await connect(job, place)
      expect(reached.status).toBe(200)
      reached.socket.destroy()
      expect(job.spec.ownNetwork?.env['TENON_JOB_FORWARDS']?.split(',')).toContain(place)
      const other = await deployOf('worker', [], narrow)
      expect((await connect(other, place)).status).toBe(403)
      expect(other.spec.ownNetwork?.env['TENON_JOB_FORWARDS']?.split(',')).not.toContain(place)
      for (const one of [before, db, job, other]) await world.end(one)
    })

    it('by outputs of its own component, but none that it gave itself', async () => {
      const first = await deployOf('web', [], narrow)
      await give(first, 'web', `http://${place}`)
      expect((await connect(first, place)).status).toBe(403)
      await world.end(first)
      const second = await deployOf('web', [], narrow)
      const reached = await connect(second, place)
      expect(reached.status).toBe(200)
      reached.socket.destroy()
      await world.end(second)
    })

    it('by its probes, but not to this machine where no output says so', async () => {
      const db = await deployOf('db', [])
      await give(db, 'db', `http://${place}`)
      const network = { mode: 'cluster' as const, names: [] }
      const probes = ['{{ .nuon.components.db.outputs.url }}/health', `tcp://127.0.0.1:${port + 1}`]
      const job = await world.job({ operations: [operationOf('front', ['db'], probes)], network })
      const reached = await connect(job, place)
      expect(reached.status).toBe(200)
      reached.socket.destroy()
      const special = await connect(job, `127.0.0.1:${port + 1}`)
      expect(special.status).toBe(403)
      expect(special.text).toContain('address_refused')
      const undeclared = await connect(job, 'db.example.com:5432')
      expect(undeclared.text).toContain('network_refused')
      for (const one of [db, job]) await world.end(one)
    })
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
