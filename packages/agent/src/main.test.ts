import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ContractServer } from './testing/contract-server.ts'
import { waitUntil } from './testing/wait-until.ts'

/** What a job of these tests runs: it talks to the job API, then works until its file appears. */
const JOB = `
import http from 'node:http'
import { existsSync, readFileSync } from 'node:fs'
const token = readFileSync(process.env.TENON_JOB_TOKEN_FILE, 'utf8')
const call = (method, path, body) => new Promise((resolve, reject) => {
  const request = http.request({ socketPath: process.env.TENON_JOB_URL.slice(5), method, path, headers: { authorization: 'Bearer ' + token } }, (response) => {
    let text = ''
    response.on('data', (part) => (text += part))
    response.on('end', () => resolve(JSON.parse(text)))
  })
  request.on('error', reject)
  request.end(body && JSON.stringify(body))
})
const manifest = await call('GET', '/v1/manifest')
console.log('begin ' + Object.keys(process.env).sort().join(' '))
for (let i = 0; i < 200; i++) console.log('line ' + i)
while (manifest.operations[0].config.waits && !existsSync('go')) await new Promise((resolve) => setTimeout(resolve, 20))
for (;;) {
  const done = await call('PUT', '/v1/result', { ok: true, message: 'worked', data: { pid: process.pid } }).catch(() => undefined)
  if (done) break
  await new Promise((resolve) => setTimeout(resolve, 50))
}
console.log('end')
`

let bundle: string
let dir: string
let server: ContractServer
let children: ChildProcess[]

beforeAll(async () => {
  bundle = await mkdtemp(path.join(os.tmpdir(), 'tenon-bundle-'))
  await build({
    entryPoints: [fileURLToPath(new URL('main.ts', import.meta.url))],
    outfile: path.join(bundle, 'agent.mjs'),
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    format: 'esm',
    banner: { js: "import { createRequire as c } from 'node:module'; const require = c(import.meta.url);" },
  })
  await writeFile(path.join(bundle, 'job.mjs'), JOB)
})
afterAll(() => rm(bundle, { recursive: true, force: true }))

beforeEach(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), 'tenon-main-'))
  await mkdir(path.join(dir, 'agent'))
  server = await ContractServer.start()
  children = []
})
afterEach(async () => {
  for (const child of children) await stopped(child, 'SIGKILL')
  await server.close()
  await rm(dir, { recursive: true, force: true })
})

function start(args: string[] = []): ChildProcess {
  const all = ['--server', server.url, '--dir', path.join(dir, 'agent'), ...args]
  const child = spawn(process.execPath, [path.join(bundle, 'agent.mjs'), ...all], {
    env: { PATH: process.env['PATH'], TENON_JOIN_TOKEN: server.joinToken },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  children.push(child)
  return child
}

async function stopped(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill(signal)
    await once(child, 'exit')
  }
  return child.exitCode
}

function manifest(waits: boolean) {
  const base = server.manifest()
  const limits = { ...base.limits, memoryBytes: 512e6 }
  return { ...base, limits, operations: [{ ...base.operations[0]!, config: { waits } }] }
}

describe('the agent program', () => {
  it('runs a real job to its end, stays small, and stops with 0', async () => {
    const child = start()
    await server.session()
    const job = manifest(false)
    server.assign(job)
    const { report } = await server.heard('job.finished', job.jobId)
    expect(report).toMatchObject({ outcome: 'succeeded', message: 'worked' })
    const log = server.logs.get(job.jobId)!.toString()
    expect(log).toMatch(/^begin .*TENON_JOB_TOKEN_FILE TENON_JOB_URL/)
    expect(log).not.toContain('TENON_JOIN_TOKEN')
    expect(log.trimEnd().split('\n')).toHaveLength(202)
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8')
    const resident = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1])
    expect(resident).toBeLessThan(100_000)
    expect(await stopped(child, 'SIGTERM')).toBe(0)
  })

  it('killed with -9 while a job runs, picks it up again: one run, one report, a log without gaps', async () => {
    const first = start()
    await server.session()
    const job = manifest(true)
    server.assign(job)
    await waitUntil('the log', () => server.logs.get(job.jobId)?.includes('line 199'))
    await stopped(first, 'SIGKILL')
    const folder = path.join(dir, 'agent', 'jobs', job.jobId, 'work')
    await writeFile(path.join(folder, 'go'), '')
    start()
    const { report } = await server.heard('job.finished', job.jobId)
    expect(report).toMatchObject({ outcome: 'succeeded', message: 'worked' })
    const lines = server.logs.get(job.jobId)!.toString().trimEnd().split('\n')
    expect(lines.slice(1)).toEqual([...Array.from({ length: 200 }, (_, index) => `line ${index}`), 'end'])
    const action = (name: string) => server.all('event').filter(({ event }) => event.action === name)
    expect(action('agent.reattached').length).toBe(1)
    // It may be sent again until the server has settled it; it is one and the same.
    expect(new Set(server.all('job.finished').map((frame) => JSON.stringify(frame))).size).toBe(1)
  })

  it('says what is wrong with its configuration, and ends with 2', async () => {
    const child = start(['--slots', 'many'])
    let said = ''
    child.stderr!.on('data', (part: Buffer) => (said += part.toString()))
    await once(child, 'close')
    expect(child.exitCode).toBe(2)
    expect(said).toMatch(/--slots \(TENON_SLOTS\)/)
  })
})
