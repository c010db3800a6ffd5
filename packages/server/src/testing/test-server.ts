import { createClient, type Client } from '@tenon/protocol'
import type { UserRole } from '@tenon/core'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino, { type Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Context } from '../context.ts'
import { createTestDatabase, type TestDatabase } from '../postgres/test-database.ts'
import { startServer, type Server } from '../start.ts'

export interface TestServer {
  server: Server
  context: Context
  url: string
  config: Config
  /** With the owner's token. */
  client: Client
  ownerToken: string
  /** What the server logged as an error. */
  errors: string[]
  /** It still answers, and whatever was done to it was no failure of its own. */
  assertSound(): Promise<void>
  stop(): Promise<void>
}

export interface TestTenant extends TestServer {
  database: TestDatabase
  /** One more process over the same database and files. */
  another(overrides?: Partial<Config>): Promise<TestServer>
  clientFor(role: UserRole, expiresInSeconds?: number | null): Promise<{ client: Client; token: string }>
}

/** A server of its own: database, keys, files, small plugins. `stop` removes all of it. */
export async function startTestTenant(overrides: Partial<Config> = {}): Promise<TestTenant> {
  const database = await createTestDatabase()
  const dataDir = mkdtempSync(join(tmpdir(), 'tenon-test-server-'))
  const config = testConfig(dataDir, { databaseUrl: database.url, ...overrides })
  writePlugins(config.pluginsDir)
  const processes: TestServer[] = []
  const removeAll = async () => {
    await Promise.all(processes.map((each) => each.stop()))
    await database.drop()
    rmSync(dataDir, { recursive: true, force: true })
  }
  const start = async (more: Partial<Config>, ownerToken?: string) => {
    const made = await startProcess({ ...config, ...more }, ownerToken)
    processes.push(made)
    return made
  }
  try {
    const first = await start({})
    return {
      ...first,
      database,
      another: (more = {}) => start(more, first.ownerToken),
      async clientFor(role, expiresInSeconds = null) {
        const { secret } = await first.client.call('tokens.create', {
          body: { name: `a ${role}`, role, expiresInSeconds },
        })
        return { client: createClient({ url: first.url, token: secret }), token: secret }
      },
      stop: removeAll,
    }
  } catch (error) {
    await removeAll()
    throw error
  }
}

async function startProcess(config: Config, ownerToken?: string): Promise<TestServer> {
  const { log, errors } = recordingLog()
  const server = await startServer(config, log)
  const token = ownerToken ?? server.ownerToken!
  let stopping: Promise<void> | undefined
  return {
    server,
    context: server.context,
    url: server.url,
    config,
    client: createClient({ url: server.url, token }),
    ownerToken: token,
    errors,
    async assertSound() {
      const { status } = await fetch(`${server.url}/readyz`)
      const found = errors.splice(0)
      if (status !== 200 || found.length > 0) throw new Error(`readyz ${status}; ${found.join('\n')}`)
    },
    stop: () => (stopping ??= server.stop()),
  }
}

export function testConfig(dataDir: string, overrides: Partial<Config> = {}): Config {
  return {
    dataDir,
    host: '127.0.0.1',
    port: 0,
    publicUrl: undefined,
    databaseUrl: undefined,
    postgresPort: 0,
    poolSize: 8,
    databaseSilenceSeconds: 30,
    masterKey: randomBytes(32),
    heartbeatSeconds: 10,
    leaseSeconds: 45,
    manifestTtlSeconds: 3600,
    holdSeconds: 604_800,
    runParallel: 10,
    pluginsDir: join(dataDir, 'plugins'),
    rateLimitPerMinute: 1_000_000,
    logLevel: 'warn',
    trustProxy: false,
    ...overrides,
  }
}

function recordingLog(): { log: Logger; errors: string[] } {
  const errors: string[] = []
  const write = (line: string) => {
    const { msg, err, url, frame } = JSON.parse(line) as {
      msg: string
      err?: { stack?: string; code?: string }
      url?: string
      frame?: string
    }
    errors.push([msg, url, frame, err?.code, err?.stack].filter(Boolean).join(' | '))
  }
  return { log: pino({ level: 'error' }, { write }), errors }
}

const PLUGINS = {
  script: ['build', 'deploy', 'destroy', 'status'],
  planned: ['build', 'plan', 'deploy', 'destroy', 'status'],
  action: ['build', 'action'],
  kubernetes_secrets: ['deploy', 'destroy'],
  'sandbox-local': ['sandbox'],
}

function writePlugins(dir: string): void {
  for (const [name, operations] of Object.entries(PLUGINS)) {
    mkdirSync(join(dir, name), { recursive: true })
    const description = { name, version: '1.0.0', operations, kind: 'node', entry: 'main.mjs' }
    writeFileSync(join(dir, name, 'plugin.json'), JSON.stringify(description))
    writeFileSync(join(dir, name, 'main.mjs'), '')
  }
}
