import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { mkdir, writeFile } from 'node:fs/promises'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDockerRuntime } from './docker-runtime.ts'
import { buildTestImage, bundleProgram, missingFor, startEngine } from './engines.testing.ts'
import type { EngineName, TestEngine } from './engines.testing.ts'

const never = new AbortController().signal
const JOBS = Array.from({ length: 10 }, (_, index) => `survivor-${index}`)

const AGENT = `
import { createDockerRuntime } from '${import.meta.dirname}/docker-runtime.ts'
const { jobs, gate, ...options } = JSON.parse(process.argv[2])
const log = { info() {}, warn() {}, error() {}, debug() {} }
const runtime = createDockerRuntime({ ...options, log })
const part = (from, to) => 'i=' + from + '; while [ $i -lt ' + to + ' ]; do i=$((i + 1)); echo "line $i"; done'
const script = part(0, 20) + '; until [ -e ' + gate + '/open ]; do sleep 0.1; done; ' + part(20, 40) + '; exit 9'
const limits = { memoryBytes: 64 << 20, cpus: 1, pids: 32, timeoutSeconds: 60, graceSeconds: 1 }
const common = { command: ['/bin/sh', '-c', script], env: { PATH: '/bin' }, files: {}, network: 'none' }
const mounts = [{ path: gate, writable: false }]
await Promise.all(jobs.map((jobId) => runtime.start({ jobId, fence: 8, ...common, mounts, limits })))
for (const jobId of jobs) {
  (async () => {
    for await (const bytes of runtime.logs(jobId, 0, new AbortController().signal)) {
      console.log(JSON.stringify({ jobId, text: Buffer.from(bytes).toString() }))
    }
  })()
}
`

for (const name of ['docker', 'podman'] as const) {
  const missing = await missingFor(name)
  const title = missing === undefined ? name : `${name} (${missing})`
  describe.skipIf(missing !== undefined)(`an agent killed while ten containers of ${title} run`, () => {
    describeDeath(name)
  })
}

function describeDeath(name: EngineName): void {
  let world: TestEngine
  let image: string
  beforeAll(async () => {
    world = await startEngine(name)
    image = await world.load(await buildTestImage(world.dir))
  })
  afterAll(() => world.close())

  it('leaves them to its successor, logs complete and without repeats', { timeout: 180_000 }, async () => {
    const { dir } = world
    const options = {
      socketPaths: [world.socketPath],
      dir: path.join(dir, 'jobs'),
      agentKey: 'death-test',
      image,
    }
    const gate = path.join(dir, 'gate')
    await mkdir(gate)
    const before = await runAgentUntilKilled(dir, { ...options, gate })
    const successor = createDockerRuntime({ ...options, log: pino({ level: 'silent' }) })
    const found = await successor.list()
    expect(found.map(({ jobId, fence, state }) => ({ jobId, fence, state }))).toEqual(
      expect.arrayContaining(JOBS.map((jobId) => ({ jobId, fence: 8, state: 'running' }))),
    )
    await writeFile(path.join(gate, 'open'), '')
    const whole = Array.from({ length: 40 }, (_, index) => `line ${index + 1}\n`).join('')
    await Promise.all(
      JOBS.map(async (jobId) => {
        let text = before.get(jobId) ?? ''
        for await (const bytes of successor.logs(jobId, text.length, never))
          text += Buffer.from(bytes).toString()
        expect(text).toBe(whole)
        expect(await successor.wait(jobId, never)).toMatchObject({ reason: 'exit', exitCode: 9 })
        await successor.remove(jobId)
      }),
    )
    expect(await successor.list()).toEqual([])
  })
}

/** Kills the agent with -9 once it has read a little of every job; answers what it had read. */
async function runAgentUntilKilled(dir: string, options: object): Promise<Map<string, string>> {
  const source = path.join(dir, 'agent.ts')
  await writeFile(source, AGENT)
  const bundle = await bundleProgram(source, path.join(dir, 'agent.mjs'))
  const argument = JSON.stringify({ ...options, jobs: JOBS })
  const agent = spawn(process.execPath, [bundle, argument], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exit = once(agent, 'exit')
  const read = new Map<string, string>()
  let rest = ''
  for await (const bytes of agent.stdout) {
    const lines = (rest + String(bytes)).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const { jobId, text } = JSON.parse(line) as { jobId: string; text: string }
      read.set(jobId, (read.get(jobId) ?? '') + text)
    }
    if (JOBS.every((jobId) => read.has(jobId))) agent.kill('SIGKILL')
  }
  await exit
  return read
}
