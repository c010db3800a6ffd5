import path from 'node:path'
import { mkdir, writeFile } from 'node:fs/promises'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectTakenOver, runAgentUntilKilled, SURVIVOR } from '../agent-death.testing.ts'
import { createDockerRuntime } from './docker-runtime.ts'
import { buildTestImage, missingFor, startEngine } from './engines.testing.ts'
import type { EngineName, TestEngine } from './engines.testing.ts'

/** Its jobs see the folder `gate`, and hold until there is a file `open` in it. */
const AGENT = `
import { createDockerRuntime } from '${import.meta.dirname}/docker-runtime.ts'
${SURVIVOR}
const { jobs, fence, gate, ...options } = JSON.parse(process.argv[2])
const runtime = createDockerRuntime({ ...options, log: quiet })
const command = ['/bin/sh', '-c', survivor('[ -e ' + gate + '/open ]')]
const limits = { memoryBytes: 64 << 20, cpus: 1, pids: 32, timeoutSeconds: 60, graceSeconds: 1 }
const common = { command, env: { PATH: '/bin' }, files: {}, network: 'internal', ownNetwork: { env: {}, isDemanded: true }, limits }
const mounts = [{ path: gate, writable: false }]
await Promise.all(jobs.map((jobId) => runtime.start({ jobId, fence, ...common, mounts })))
for (const jobId of jobs) void tell(runtime, jobId)
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
    const { dir, socketPath } = world
    const gate = path.join(dir, 'gate')
    await mkdir(gate)
    const jobs = path.join(dir, 'jobs')
    const options = { socketPaths: [socketPath], dir: jobs, agentKey: 'death-test', image }
    const before = await runAgentUntilKilled(dir, AGENT, { ...options, gate })
    const successor = createDockerRuntime({ ...options, log: pino({ level: 'silent' }) })
    await expectTakenOver(successor, before, () => writeFile(path.join(gate, 'open'), ''))
    expect(await successor.list()).toEqual([])
  })
}
