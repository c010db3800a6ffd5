import { readdirSync, readlinkSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
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
const never = () => new AbortController().signal
const log = pino({ level: 'silent' })
const limits = {
  memoryBytes: 64 * 1_048_576,
  cpus: 0.5,
  pids: 32,
  timeoutSeconds: 120,
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

/** A hundred at once beside the hogs; what each printed, and how it ended. */
async function runMany(runtime: Runtime) {
  const specs = Array.from({ length: JOBS }, (_, index) =>
    job(`many-${index}`, `echo "from ${index}"; sleep 1; echo "to ${index}"; exit ${index % 7}`),
  )
  await Promise.all(HOGS.map((spec) => runtime.start(spec)))
  const ends = await Promise.all(specs.map((spec) => runOne(runtime, spec)))
  expect(ends).toEqual(
    specs.map((_, index) => ({ text: `from ${index}\nto ${index}\n`, exitCode: index % 7 })),
  )
  expect((await runtime.wait('hog-memory', never())).reason).not.toBe('completed')
  await runtime.stop('hog-cpu', 0, 'canceled')
  await Promise.all([...HOGS, ...specs].map(({ jobId }) => runtime.remove(jobId)))
  expect(await runtime.list()).toEqual([])
}

async function runOne(runtime: Runtime, spec: JobSpec) {
  await runtime.start(spec)
  const parts: Uint8Array[] = []
  for await (const bytes of runtime.logs(spec.jobId, 0, never())) parts.push(bytes)
  const { exitCode } = await runtime.wait(spec.jobId, never())
  return { text: Buffer.concat(parts).toString(), exitCode }
}

describe('a hundred jobs at once, and hogs beside them, on process', () => {
  let dir: string
  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'tenon-many-'))
  })
  afterAll(() => rm(dir, { recursive: true, force: true }))

  it('all end right, and nothing is left of any', { timeout: 180_000 }, async () => {
    const before = processesIn(dir)
    await runMany(createProcessRuntime({ dir: path.join(dir, 'jobs'), log }))
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
    await runMany(createDockerRuntime(options))
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
