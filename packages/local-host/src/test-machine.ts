import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createLocalHostClient } from './client.ts'
import type { LocalHostClient } from './client.ts'
import type { UnitSpecInput } from '@tenon/protocol/local-host'
import { startLocalHost } from './host.ts'
import type { LocalHost } from './host.ts'

/** For tests: a folder of its own, a web service to supervise, and proof that no process is left. */
export interface TestMachine {
  dir: string
  service: string
  problems: string[]
  start(): Promise<LocalHost>
  admin(): Promise<LocalHostClient>
  install(id: string): Promise<LocalHostClient>
  cleanUp(): Promise<void>
}

/** Answers with its pid and $TEXT; SICK makes its health check fail, CRASH makes it end at once. */
const SERVICE = `
import { createServer } from 'node:http'
import { existsSync } from 'node:fs'
const { PORT, TEXT, SICK, CRASH } = process.env
console.log('service begins', TEXT)
if (CRASH) { console.error('cannot open the database'); process.exit(Number(CRASH)) }
createServer((request, response) => {
  if (request.url === '/healthz') response.statusCode = SICK && existsSync(SICK) ? 500 : 200
  response.end(JSON.stringify({ pid: process.pid, text: TEXT }))
}).listen(Number(PORT), '127.0.0.1')
`

export async function createTestMachine(): Promise<TestMachine> {
  const root = await mkdtemp(join(tmpdir(), 'lh-'))
  const dir = join(root, 'm')
  const service = join(root, 'service')
  await mkdir(service)
  await writeFile(join(service, 'server.mjs'), SERVICE)
  const problems: string[] = []
  const hosts: LocalHost[] = []
  const log = { info: quiet, warn: quiet, error: (_fields: object, text: string) => void problems.push(text) }
  const admin = async () =>
    createLocalHostClient({ socketPath: (await readFile(join(dir, 'admin.path'), 'utf8')).trim() })
  return {
    dir,
    service,
    problems,
    admin,
    start: async () => {
      const host = await startLocalHost({ dir, log })
      hosts.push(host)
      return host
    },
    install: async (id) =>
      createLocalHostClient({ socketPath: (await (await admin()).getInstall(id)).socketPath }),
    cleanUp: async () => {
      await Promise.all(hosts.map((host) => host.close({ stopServices: true })))
      const left = await processesOf(root)
      // One that is just forking leaves a child behind, so this looks again until none is left.
      for (let more = left; more.length > 0; more = await processesOf(root)) {
        for (const pid of more) if (isRunning(pid)) process.kill(pid, 'SIGKILL')
      }
      await rm(root, { recursive: true, force: true })
      if (left.length > 0) throw new Error(`Processes were left behind: ${left.join(', ')}`)
    },
  }
}

export function webService(
  machine: TestMachine,
  port: number,
  env: Record<string, string> = {},
  more: Partial<UnitSpecInput> = {},
): UnitSpecInput {
  return {
    command: ['node', 'server.mjs'],
    env: { PORT: String(port), TEXT: 'one', ...env },
    bundlePath: machine.service,
    health: { http: { port, path: '/healthz' }, intervalSeconds: 0.2, timeoutSeconds: 1 },
    stopGraceSeconds: 2,
    ...more,
  }
}

export async function ask(port: number): Promise<{ pid: number; text: string }> {
  const response = await fetch(`http://127.0.0.1:${port}/`)
  return (await response.json()) as { pid: number; text: string }
}

export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  limitMs = 10_000,
): Promise<Exclude<T, false | undefined | null>> {
  const deadline = Date.now() + limitMs
  for (;;) {
    const seen = await look()
    if (seen) return seen as Exclude<T, false | undefined | null>
    if (Date.now() > deadline) throw new Error(`Not within ${limitMs} ms: ${what}`)
    await delay(20)
  }
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

export async function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/** Only faults of the local-host itself matter to a test. */
function quiet(): undefined {
  return undefined
}

/** Every supervised process carries its data folder in its environment. */
async function processesOf(root: string): Promise<number[]> {
  const pids = (await readdir('/proc').catch(() => [])).map(Number).filter(Number.isInteger)
  const owned: number[] = []
  for (const pid of pids) {
    const env = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
    if (pid !== process.pid && env.includes(`TENON_DATA=${root}/`)) owned.push(pid)
  }
  return owned
}
