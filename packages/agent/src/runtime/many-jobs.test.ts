import { readdirSync, readlinkSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDockerRuntime } from './docker/docker-runtime.ts'
import { createEngine } from './docker/engine.ts'
import { buildTestImage, missingFor, startEngine, type TestEngine } from './docker/engines.testing.ts'
import { createProcessRuntime } from './process/process-runtime.ts'
import type { JobSpec, Runtime } from './runtime.ts'

const JOBS = 100
const STARTS_AT_ONCE = 8
const never = () => new AbortController().signal
const log = pino({ level: 'silent' })
const limits = {
  memoryBytes: 64 * 1_048_576,
  cpus: 0.5,
  pids: 32,
  timeoutSeconds: 240,
  graceSeconds: 1,
}

const job = (jobId: string, script: string): JobSpec => ({
  jobId,
  fence: 1,
  command: ['/bin/sh', '-c', script],
  env: { PATH: '/usr/bin:/bin' },
  files: {},
  mounts: [],
  network: 'none',
  limits,
})

/** One wants all the memory there is, one all the time of the processors. */
const HOGS: JobSpec[] = [
  job('hog-memory', 'tail /dev/zero; exit 1'),
  job('hog-cpu', 'while :; do :; done & while :; do :; done'),
]

/** All run at once: each waits for the gate, which opens when the last one runs. Starts come a few at a time. */
async function runMany(runtime: Runtime, dir: string) {
  const gate = path.join(dir, 'gate')
  await mkdir(gate)
  const mounts = [{ path: gate, writable: false }]
  const specs = Array.from({ length: JOBS }, (_, index) => {
    const wait = `until [ -e ${gate}/open ]; do sleep 0.5; done`
    return {
      ...job(`many-${index}`, `echo "from ${index}"; ${wait}; echo "to ${index}"; exit ${index % 7}`),
      mounts,
    }
  })
  const queue = [...HOGS, ...specs]
  const starter = async () => {
    for (let spec = queue.shift(); spec; spec = queue.shift()) await runtime.start(spec)
  }
  await Promise.all(Array.from({ length: STARTS_AT_ONCE }, starter))
  const running = (await runtime.list()).filter(({ state }) => state === 'running')
  expect(running.length).toBeGreaterThanOrEqual(JOBS)
  await writeFile(path.join(gate, 'open'), '')
  const ends = await Promise.all(specs.map(({ jobId }) => endOf(runtime, jobId)))
  expect(ends).toEqual(
    specs.map((_, index) => ({ text: `from ${index}\nto ${index}\n`, exitCode: index % 7 })),
  )
  expect((await runtime.wait('hog-memory', never())).reason).not.toBe('completed')
  await runtime.stop('hog-cpu', 0, 'canceled')
  await Promise.all([...HOGS, ...specs].map(({ jobId }) => runtime.remove(jobId)))
  expect(await runtime.list()).toEqual([])
}

async function endOf(runtime: Runtime, jobId: string) {
  const parts: Uint8Array[] = []
  for await (const bytes of runtime.logs(jobId, 0, never())) parts.push(bytes)
  const { exitCode } = await runtime.wait(jobId, never())
  return { text: Buffer.concat(parts).toString(), exitCode }
}

describe('a hundred jobs at once, and hogs beside them, on process', () => {
  let dir: string
  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'tenon-many-'))
  })
  afterAll(() => rm(dir, { recursive: true, force: true }))

  it('all end right, and nothing is left of any', { timeout: 240_000 }, async () => {
    const before = processesIn(dir)
    await runMany(createProcessRuntime({ dir: path.join(dir, 'jobs'), log }), dir)
    expect(processesIn(dir)).toEqual(before)
    expect(await readdir(path.join(dir, 'jobs'))).toEqual([])
  })
})

const missing = await missingFor('docker')
const title = missing === undefined ? 'docker' : `docker (${missing})`
describe.skipIf(missing !== undefined)(`a hundred jobs at once, and hogs beside them, on ${title}`, () => {
  let world: TestEngine
  let image: string
  beforeAll(async () => {
    world = await startEngine('docker')
    image = await world.load(await buildTestImage(world.dir))
  })
  afterAll(() => world.close())

  it('all end right, and nothing is left of any', { timeout: 300_000 }, async () => {
    const engine = createEngine([world.socketPath])
    const dir = path.join(world.dir, 'jobs')
    const options = { socketPaths: [world.socketPath], dir, log, agentKey: 'many-test', image }
    await runMany(createDockerRuntime(options), world.dir)
    expect(await engine.list('tenon.agent')).toEqual([])
    expect(await readdir(dir)).toEqual([])
  })
})

/** Whose working folder lies in one of these. */
function processesIn(dir: string): string[] {
  return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && folderOf(pid).startsWith(dir))
}

function folderOf(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}
