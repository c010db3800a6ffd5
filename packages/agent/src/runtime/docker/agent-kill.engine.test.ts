import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ContractServer } from '../../testing/contract-server.ts'
import { waitUntil } from '../../testing/wait-until.ts'
import { buildTestImage, bundleProgram, missingFor, startEngine, type EngineName } from './engines.testing.ts'

const JOBS = 10
/** A slow machine starts ten containers, and its engine, in this time. */
const SLOW_MS = 90_000

/** Prints, waits until the test opens the gate beside the job API's socket, and prints on. */
const JOB = `
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
const gate = join(dirname(process.env.TENON_JOB_URL.slice('unix:'.length)), 'open')
for (let line = 1; line <= 20; line++) console.log('line ' + line)
while (!existsSync(gate)) await new Promise((resolve) => setTimeout(resolve, 50))
for (let line = 21; line <= 40; line++) console.log('line ' + line)
`
const WHOLE_LOG = Array.from({ length: 40 }, (_, index) => `line ${index + 1}\n`).join('')

let base: string
let bundle: string
let programs: string
let dir: string
let server: ContractServer
let agents: ChildProcess[]

beforeAll(async () => {
  base = await mkdtemp(path.join(tmpdir(), 'tenon-kill-'))
  bundle = await bundleProgram('packages/agent/src/main.ts', path.join(base, 'agent.mjs'))
  programs = path.join(base, 'programs')
  await mkdir(programs)
  await writeFile(path.join(programs, 'job.mjs'), JOB)
})
afterAll(() => rm(base, { recursive: true, force: true }))

beforeEach(async () => {
  dir = await mkdtemp(path.join(base, 'a-'))
  server = await ContractServer.start()
  agents = []
})
afterEach(async () => {
  for (const agent of agents) await end(agent, 'SIGTERM')
  await server.close()
})

async function startAgent(env: Record<string, string>): Promise<ChildProcess> {
  const sessions = server.sessions
  const agent = spawn(process.execPath, [bundle], {
    env: {
      PATH: process.env['PATH'],
      TENON_SERVER_URL: server.url,
      TENON_AGENT_DIR: dir,
      TENON_JOIN_TOKEN: server.joinToken,
      TENON_PROGRAMS_DIR: programs,
      TENON_SLOTS: String(JOBS),
      TENON_JOBS_MEMORY_BYTES: String(8e9),
      TENON_JOBS_CPUS: '100',
      TENON_LOG_LEVEL: process.env['TEST_LOG'] ?? 'error',
      ...env,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  agents.push(agent)
  await waitUntil('a session', () => server.sessions > sessions, SLOW_MS)
  return agent
}

async function end(agent: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (agent.exitCode !== null || agent.signalCode !== null) return
  const gone = once(agent, 'exit')
  agent.kill(signal)
  await gone
}

/** Ten jobs are under way; the agent dies at once, without a word, and another start of it takes them over. */
async function killInTheMiddle(env: Record<string, string>): Promise<typeof ALL_RIGHT> {
  const agent = await startAgent(env)
  const jobs = Array.from({ length: JOBS }, () => server.manifest())
  for (const manifest of jobs) server.assign(manifest)
  const logOf = (jobId: string) => server.logs.get(jobId)?.toString() ?? ''
  await waitUntil(
    'all ten to have printed',
    () => jobs.every(({ jobId }) => logOf(jobId).includes('line 20\n')),
    SLOW_MS,
  )
  await end(agent, 'SIGKILL')
  await startAgent(env)
  await writeFile(path.join(dir, 'api', 'open'), '')
  const finished = () => server.all('job.finished').map(({ report }) => report)
  await waitUntil('all ten reports', () => finished().length >= JOBS, SLOW_MS)
  const attached = () =>
    new Set(
      server.all('event').flatMap(({ event }) => (event.action === 'agent.reattached' ? [event.jobId] : [])),
    )
  await waitUntil('the events', () => attached().size === JOBS, SLOW_MS)
  const ids = jobs.map(({ jobId }) => jobId)
  return {
    wholeLogs: ids.filter((jobId) => logOf(jobId) === WHOLE_LOG).length,
    reports: finished().length,
    succeeded: new Set(finished().flatMap(({ jobId, outcome }) => (outcome === 'succeeded' ? [jobId] : [])))
      .size,
    reattached: ids.filter((jobId) => attached().has(jobId)).length,
  }
}

/** Each exactly once: more reports than jobs would be a repeat. */
const ALL_RIGHT = { wholeLogs: JOBS, reports: JOBS, succeeded: JOBS, reattached: JOBS }

describe('an agent killed with -9 in the middle of ten running jobs on process', () => {
  it(
    'takes all up again: logs whole and without repeats, each report once',
    { timeout: 180_000 },
    async () => {
      expect(await killInTheMiddle({ TENON_RUNTIME: 'process' })).toEqual(ALL_RIGHT)
    },
  )
})

for (const name of ['docker', 'podman'] as const) {
  const missing = await missingFor(name)
  const title = missing === undefined ? name : `${name} (${missing})`
  describe.skipIf(missing !== undefined)(
    `an agent killed with -9 in the middle of ten running jobs on ${title}`,
    () => {
      it(
        'takes all up again: logs whole and without repeats, each report once',
        { timeout: 300_000 },
        async () => {
          expect(await onEngine(name)).toEqual(ALL_RIGHT)
        },
      )
    },
  )
}

async function onEngine(name: EngineName): Promise<typeof ALL_RIGHT> {
  const engine = await startEngine(name)
  try {
    const image = await engine.load(await buildTestImage(engine.dir, ['--no-tools', '--dist', programs]))
    const socket = { TENON_DOCKER_SOCKET: engine.socketPath }
    return await killInTheMiddle({ TENON_RUNTIME: 'docker', TENON_JOB_IMAGE: image, ...socket })
  } finally {
    for (const agent of agents) await end(agent, 'SIGTERM')
    await engine.close()
  }
}
