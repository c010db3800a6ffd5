import { keptManifest, type ComponentSettings } from '@tenon/core'
import { packFolder } from '@tenon/oci'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tls from 'node:tls'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startProgram, type Program } from './program.ts'
import { buildPrograms } from './programs.ts'
import { until } from './until.ts'
import { createWorld, type AgentOptions, type ServerHandle, type World } from './world.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const clusterUrl = process.env['TENON_TEST_POSTGRES_URL'] ?? ''
const database = `job_networks_${randomBytes(6).toString('hex')}`
const databaseUrl = Object.assign(new URL(clusterUrl), { pathname: database }).href
const dir = mkdtempSync(join(tmpdir(), 'tenon-job-networks-'))
const started: Program[] = []
const closers: (() => void)[] = []
const onStart = (program: Program) => void started.push(program)
const APP = 'shop'
const PATIENCE_SECONDS = 120
const USER = 'customer'
const PASSWORD = 'hunter2-of-the-proxy'

let removePrograms: () => void = () => undefined
let dist: string
let world: World
let server: ServerHandle

const sql = async (statement: string) => {
  const client = new pg.Client({ connectionString: clusterUrl })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

/** What a job tries: straight, and as tools do that read the proxy from their environment. */
const probe = (places: string[]) => `
const net = require('node:net'), http = require('node:http')
const straight = (host, port) => new Promise((done) => {
  const socket = net.connect({ host, port, timeout: 3000 })
  socket.on('connect', () => (socket.destroy(), done('reached')))
  for (const end of ['error', 'timeout']) socket.on(end, () => (socket.destroy(), done('closed')))
})
const proxied = (place) => new Promise((done) => {
  const proxy = process.env.HTTPS_PROXY
  if (!proxy) return done('no proxy')
  const { hostname, port } = new URL(proxy)
  const request = http.request({ host: hostname, port, method: 'CONNECT', path: place })
  request.on('connect', (answer, socket) => (socket.destroy(), done(String(answer.statusCode))))
  request.on('error', () => done('broken')).end()
})
void (async () => {
  for (const place of ${JSON.stringify(places)}) {
    const [host, port] = place.split(':')
    console.log('probe', place, await straight(host, port), await proxied(place))
  }
})()
`

beforeAll(async () => {
  ;({ dist, remove: removePrograms } = await buildPrograms(root))
  await sql(`create database ${database}`)
  world = createWorld({ dir, dist, onStart })
  server = await world.startServer({
    env: {
      DATABASE_URL: databaseUrl,
      TENON_HEARTBEAT_SECONDS: '0.5',
      TENON_RATE_LIMIT_PER_MINUTE: '1000000',
    },
  })
  const { host: postgres } = new URL(clusterUrl)
  await buildApp(APP, [postgres, new URL(server.url).host, '169.254.169.254:80', '127.0.0.1:22'])
}, 240_000)
afterAll(async () => {
  await Promise.all(started.toReversed().map((program) => program.stop()))
  for (const close of closers) close()
  await sql(`drop database if exists ${database} with (force)`)
  rmSync(dir, { recursive: true, force: true, maxRetries: 5 })
  removePrograms()
}, 60_000)

/** An app with one script, which tries to reach these places as it is deployed. */
async function buildApp(app: string, places: string[], settings?: ComponentSettings): Promise<void> {
  const { client } = server
  const source = join(world.folder('source'), app)
  mkdirSync(source)
  writeFileSync(join(source, 'probe.cjs'), probe(places))
  writeFileSync(join(source, 'deploy.sh'), '#!/bin/sh\nnode "$(dirname "$0")/probe.cjs"\n', { mode: 0o755 })
  for (const script of ['destroy.sh', 'status.sh'])
    writeFileSync(join(source, script), '#!/bin/sh\nexit 0\n', { mode: 0o755 })
  const component = { name: 'web', type: 'script', dependencies: [], config: {} }
  const components = [{ ...component, ...(settings === undefined ? {} : { settings }) }]
  await client.call('apps.sync', {
    body: { app: { name: app, displayName: 'Shop', description: '', components } },
  })
  const agent = await world.startAgent(server, { name: `build-agent-of-${app}`, role: 'build' })
  const { digest } = await client.call('sources.put', { body: await packFolder(source) })
  const { builds } = await client.call('builds.create', {
    params: { ref: app },
    body: { components: [{ name: 'web', source: digest }] },
  })
  const build = await until(
    'the build',
    async () => {
      const found = await client.call('builds.get', { params: { id: builds[0]!.id } })
      return found.finishedAt !== null && found
    },
    PATIENCE_SECONDS,
  )
  expect([build.status, build.message]).toEqual(['succeeded', build.message])
  await agent.stop()
}

interface InstallOptions extends Pick<AgentOptions, 'serverUrl' | 'env'> {
  app?: string
  machine?: World
}

/** An install with a registry and an agent of the `process` runtime; ends with its first run. */
async function install(name: string, { app = APP, machine = world, ...options }: InstallOptions = {}) {
  const { client } = server
  await client.call('installs.create', { body: { name, app, sandbox: { type: 'none' } } })
  const keyFile = join(world.folder(`${name}-keys`), 'registry.key')
  writeFileSync(keyFile, randomBytes(32).toString('base64url'), { mode: 0o600 })
  const registry = startProgram({
    name: `${name}-registry`,
    bundle: join(dist, 'registry.mjs'),
    args: ['--dir', world.folder(`${name}-registry`), '--port', '0', '--key-file', keyFile],
    env: { PATH: process.env['PATH'] ?? '' },
    logFile: join(world.folder('log'), `${name}-registry.log`),
  })
  started.push(registry)
  const url = (await registry.firstLine()).replace('registry listens at ', '')
  const env = { TENON_REGISTRY_URL: url, TENON_REGISTRY_KEY_FILE: keyFile, ...options.env }
  await machine.startAgent(server, { name, role: { install: name }, runtime: 'process', ...options, env })
  const run = await until(
    `the run of ${name} to end`,
    async () => {
      const { items } = await client.call('runs.list', { query: { install: name, limit: 1 } })
      return items[0]?.finishedAt !== null && items[0]
    },
    PATIENCE_SECONDS,
  )
  const jobId = (key: string) => run.steps.find((step) => step.key === key)?.jobId ?? ''
  const log = async (key: string) => {
    const id = jobId(key)
    return id !== '' ? new TextDecoder().decode(await logOf(id)) : ''
  }
  return { run, jobId, log, agentLog: () => readFileSync(join(dir, 'log', `${name}.log`), 'utf8') }
}

async function logOf(jobId: string): Promise<Uint8Array> {
  const answer = await fetch(`${server.url}/api/v1/jobs/${jobId}/logs`, {
    headers: { authorization: `Bearer ${server.token}` },
  })
  return new Uint8Array(await answer.arrayBuffer())
}

const outcome = ({ run }: { run: { steps: { key: string; status: string; message: string | null }[] } }) =>
  run.steps
    .filter(({ key }) => key !== 'agent')
    .map(({ key, status, message }) => [key, status, status === 'succeeded' ? '' : message])

describe('jobs with a network of their own', () => {
  it('sync and deploy with the example of the docs, and reach nothing of the machine', async () => {
    const closed = await install('closed', { env: { TENON_JOB_NETWORKS: 'action=none,deploy=internal' } })
    expect(outcome(closed)).toEqual([
      ['sync:web', 'succeeded', ''],
      ['deploy:web', 'succeeded', ''],
    ])
    const log = await closed.log('deploy:web')
    expect(log.match(/^probe .*$/gm)).toEqual([
      `probe ${new URL(clusterUrl).host} closed 403`,
      `probe ${new URL(server.url).host} closed 403`,
      'probe 169.254.169.254:80 closed 403',
      'probe 127.0.0.1:22 closed 403',
    ])
    expect(log).toContain('error network_refused: This job may not reach 169.254.169.254:80')
    expect(closed.agentLog()).toContain('none, which is now called internal')
    expect(closed.agentLog()).toContain('a job may not connect there')
  }, 240_000)
})

describe('a component that declares what it calls', () => {
  it('reaches that, and nothing else of the machine', async () => {
    const [declared, other] = [await listening(), await listening()]
    const [host, port] = ['127.0.0.1', Number(declared.split(':')[1])]
    await buildApp('narrow', [declared, other, '169.254.169.254:80'], { egress: [{ host, port }] })
    const narrow = await install('narrow', { app: 'narrow' })
    expect(outcome(narrow)).toEqual([
      ['sync:web', 'succeeded', ''],
      ['deploy:web', 'succeeded', ''],
    ])
    const log = await narrow.log('deploy:web')
    expect(log.match(/^probe .*$/gm)).toEqual([
      `probe ${declared} reached 200`,
      `probe ${other} closed 403`,
      'probe 169.254.169.254:80 closed 403',
    ])
    expect(log).toContain(`its network is egress (the job API, its registry, ${declared})`)
    const { text } = await server.client.call('jobs.manifest', {
      params: { id: narrow.jobId('deploy:web') },
    })
    expect(keptManifest(text)).toMatchObject({
      network: { mode: 'egress', names: [declared] },
      requires: [{ feature: 'job-networks' }],
    })
  }, 240_000)
})

describe('an agent behind a proxy that wants a user and has an authority of its own', () => {
  it.each([
    ['proxied', () => world],
    // Nothing keeps its jobs from the machine's network, out of which the proxy is the only way as well.
    ['proxied-bare', () => createWorld({ dir, dist: withoutBubblewrap(dist), onStart })],
  ] as const)(
    'syncs through it, where no name of the server can be resolved: %s',
    async (name, machine) => {
      const certificate = selfSigned('tenon.vendor.test')
      const { port, tunnels } = await authenticatingProxy('tenon.vendor.test', certificate)
      const proxied = await install(name, {
        machine: machine(),
        serverUrl: 'https://tenon.vendor.test',
        env: {
          HTTPS_PROXY: `http://${USER}:${PASSWORD}@127.0.0.1:${port}`,
          NO_PROXY: 'registry.test',
          NODE_EXTRA_CA_CERTS: certificate.file,
        },
      })
      expect(outcome(proxied)).toEqual([
        ['sync:web', 'succeeded', ''],
        ['deploy:web', 'succeeded', ''],
      ])
      expect(new Set(tunnels)).toEqual(new Set(['tenon.vendor.test:443']))
      expect(proxied.agentLog()).toMatch(/"to":"tenon.vendor.test:443","via":"proxy"/)
      expect(holding(dir, PASSWORD)).toEqual([])
    },
    240_000,
  )
})

function selfSigned(name: string): { file: string; cert: string; key: string } {
  const file = join(dir, 'authority.pem')
  const keyFile = join(dir, 'authority.key')
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`]
  const form = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  execFileSync('openssl', ['req', '-x509', ...form, ...subject, '-keyout', keyFile, '-out', file], {
    stdio: 'ignore',
  })
  return { file, cert: readFileSync(file, 'utf8'), key: readFileSync(keyFile, 'utf8') }
}

/** A port of this machine that takes connections. */
async function listening(): Promise<string> {
  const listener = net.createServer((socket) => socket.on('error', () => undefined).end())
  await new Promise<void>((done) => listener.listen(0, '127.0.0.1', done))
  closers.push(() => listener.close())
  return `127.0.0.1:${(listener.address() as net.AddressInfo).port}`
}

/** The same programs, on a machine where the agent finds no bubblewrap. */
function withoutBubblewrap(from: string): string {
  const folder = join(from, 'without-bubblewrap')
  const names = readdirSync(from)
  mkdirSync(folder)
  for (const name of names) if (name !== 'agent.mjs') symlinkSync(join(from, name), join(folder, name))
  const program = readFileSync(join(from, 'agent.mjs'), 'utf8')
  const without = program.replaceAll(/\/(?:usr\/|usr\/local\/)?bin\/bwrap\b/g, '/nowhere/bwrap')
  expect(without).not.toBe(program)
  writeFileSync(join(folder, 'agent.mjs'), without)
  return folder
}

/** It alone knows where `name` is: TLS ends behind it, and the rest goes to the real server. */
async function authenticatingProxy(name: string, { cert, key }: { cert: string; key: string }) {
  const tunnels: string[] = []
  const { port: serverPort } = new URL(server.url)
  const front = tls.createServer({ cert, key }, (socket) => {
    const onward = net.connect(Number(serverPort), '127.0.0.1')
    socket.pipe(onward).pipe(socket)
    for (const each of [socket, onward]) each.on('error', () => (socket.destroy(), onward.destroy()))
  })
  const wanted = `Basic ${Buffer.from(`${USER}:${PASSWORD}`).toString('base64')}`
  const proxy = createServer((_request, response) => response.writeHead(405).end())
  proxy.on('connect', ({ url, headers }: IncomingMessage, socket: net.Socket) => {
    socket.on('error', () => undefined)
    tunnels.push(url ?? '')
    const isKnown = headers['proxy-authorization'] === wanted && url === `${name}:443`
    if (!isKnown) return socket.end('HTTP/1.1 407 Proxy authentication required\r\n\r\n')
    const onward = net.connect((front.address() as net.AddressInfo).port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      socket.pipe(onward).pipe(socket)
    })
    onward.on('error', () => socket.destroy())
    return undefined
  })
  for (const each of [front, proxy]) await new Promise<void>((done) => each.listen(0, '127.0.0.1', done))
  closers.push(() => (front.close(), proxy.close()))
  return { port: (proxy.address() as net.AddressInfo).port, tunnels }
}

/** Files under `folder` that hold `text`. */
function holding(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile() === true)
    .filter((file) => readFileSync(file).includes(text))
}
