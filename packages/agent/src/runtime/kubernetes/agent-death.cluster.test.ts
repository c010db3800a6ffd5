import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bundleProgram } from '../docker/engines.testing.ts'
import { leftOf, missingCluster, openCluster } from './cluster.testing.ts'
import type { TestCluster } from './cluster.testing.ts'
import { createKubernetesRuntime } from './kubernetes-runtime.ts'

const never = new AbortController().signal
const JOBS = Array.from({ length: 10 }, (_, index) => `survivor-${index}`)
const missing = missingCluster()

/** Each job prints, holds until a command beside it opens its gate, and prints again. */
const AGENT = `
import { createKubernetesRuntime } from '${import.meta.dirname}/kubernetes-runtime.ts'
const { jobs, ...options } = JSON.parse(process.argv[2])
const log = { info() {}, warn() {}, error() {}, debug() {} }
const runtime = createKubernetesRuntime({ ...options, log })
const part = (from, to) => 'i=' + from + '; while [ $i -lt ' + to + ' ]; do i=$((i + 1)); echo "line $i"; done'
const script = part(0, 20) + '; until [ -e open ]; do sleep 0.2; done; ' + part(20, 40) + '; exit 9'
const limits = { memoryBytes: 32 << 20, cpus: 0.5, pids: 32, timeoutSeconds: 120, graceSeconds: 1 }
const common = { command: ['/bin/sh', '-c', script], env: { PATH: '/bin' }, files: {}, network: 'none' }
for (const jobId of jobs) {
  (async () => {
    await runtime.start({ jobId, fence: 8, ...common, mounts: [], limits })
    for await (const bytes of runtime.logs(jobId, 0, new AbortController().signal)) {
      console.log(JSON.stringify({ jobId, text: Buffer.from(bytes).toString() }))
    }
  })()
}
`

describe.skipIf(missing !== undefined)(`an agent killed while ten pods run ${missing ?? ''}`, () => {
  let cluster: TestCluster
  beforeAll(async () => {
    cluster = await openCluster('death')
  })
  afterAll(() => cluster.close(), 120_000)

  it('leaves them to its successor, logs complete and without repeats', { timeout: 180_000 }, async () => {
    const { kubeconfig, namespace, image } = cluster
    const dir = path.join(cluster.dir, 'jobs')
    const options = { kubeconfig, namespace, image, dir, agentKey: 'death-test', scheduleSeconds: 60 }
    const before = await runAgentUntilKilled(cluster.dir, options)
    const successor = createKubernetesRuntime({ ...options, log: pino({ level: 'silent' }) })
    const found = await successor.list()
    expect(found.map(({ jobId, fence, state }) => ({ jobId, fence, state }))).toEqual(
      expect.arrayContaining(JOBS.map((jobId) => ({ jobId, fence: 8, state: 'running' }))),
    )
    const whole = Array.from({ length: 40 }, (_, index) => `line ${index + 1}\n`).join('')
    await Promise.all(
      JOBS.map(async (jobId) => {
        const opened = await successor.exec(jobId, ['touch', 'open'], { tty: false, signal: never })
        // The job may end so soon after it that its end takes the command with it.
        await opened.exitCode.catch(() => undefined)
        let text = before.get(jobId) ?? ''
        for await (const bytes of successor.logs(jobId, text.length, never))
          text += Buffer.from(bytes).toString()
        expect(text).toBe(whole)
        expect(await successor.wait(jobId, never)).toMatchObject({ reason: 'exit', exitCode: 9 })
        await successor.remove(jobId)
      }),
    )
    expect(await successor.list()).toEqual([])
    expect(await leftOf(cluster, 'tenon-')).toEqual([])
  })
})

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
