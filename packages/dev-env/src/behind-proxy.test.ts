import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
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
import { startInstallRegistry } from './install-registry.ts'
import type { Program } from './program.ts'
import { buildPrograms } from './programs.ts'
import { APP, buildApp } from './template.ts'
import { until } from './until.ts'
import { createWorld, type AgentOptions, type ServerHandle, type World } from './world.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const clusterUrl = process.env['TENON_TEST_POSTGRES_URL'] ?? ''
const database = `behind_proxy_${randomBytes(6).toString('hex')}`
const databaseUrl = Object.assign(new URL(clusterUrl), { pathname: database }).href
const dir = mkdtempSync(join(tmpdir(), 'tenon-behind-proxy-'))
const started: Program[] = []
const closers: (() => void)[] = []
const onStart = (program: Program) => void started.push(program)
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
  await buildApp(world, server, { names: ['web'] })
}, 240_000)
afterAll(async () => {
  await Promise.all(started.toReversed().map((program) => program.stop()))
  for (const close of closers) close()
  await sql(`drop database if exists ${database} with (force)`)
  rmSync(dir, { recursive: true, force: true, maxRetries: 5 })
  removePrograms()
}, 60_000)

interface InstallOptions extends Pick<AgentOptions, 'serverUrl' | 'env'> {
  machine: World
}

/** An install with a registry and an agent of the `process` runtime; ends with its first run. */
async function install(name: string, { machine, ...options }: InstallOptions) {
  const { client } = server
  await client.call('installs.create', { body: { name, app: APP, sandbox: { type: 'none' } } })
  const registry = await startInstallRegistry(world, dist, name)
  started.push(registry.program)
  const env = { ...registry.env, ...options.env }
  await machine.startAgent(server, { name, role: { install: name }, runtime: 'process', ...options, env })
  const run = await until(
    `the run of ${name} to end`,
    async () => {
      const { items } = await client.call('runs.list', { query: { install: name, limit: 1 } })
      return items[0]?.finishedAt !== null && items[0]
    },
    PATIENCE_SECONDS,
  )
  return { run, agentLog: () => readFileSync(join(dir, 'log', `${name}.log`), 'utf8') }
}

const outcome = ({ run }: { run: { steps: { key: string; status: string; message: string | null }[] } }) =>
  run.steps
    .filter(({ key }) => key !== 'agent')
    .map(({ key, status, message }) => [key, status, status === 'succeeded' ? '' : message])

describe('an agent behind a proxy that wants a user and has an authority of its own', () => {
  it.each([
    ['proxied', () => world, ''],
    // Nothing keeps its jobs from the machine's network, out of which the proxy is the only way as well.
    [
      'proxied-bare',
      () => createWorld({ dir, dist: withoutBubblewrap(dist), onStart }),
      'They have the network of this machine, its loopback included',
    ],
  ] as const)(
    'syncs through it, where no name of the server can be resolved: %s',
    async (name, machine, warning) => {
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
      expect(proxied.agentLog()).toContain(warning)
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

/** Files under `folder` that hold `text`. The agent goes on removing what its jobs left, so each may be gone by now. */
function holding(folder: string, text: string): string[] {
  const there = ifThere(() => readdirSync(folder, { withFileTypes: true })) ?? []
  return there.flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return holding(path, text)
    const holds = entry.isFile() && ifThere(() => readFileSync(path))?.includes(text)
    return holds === true ? [path] : []
  })
}

function ifThere<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
