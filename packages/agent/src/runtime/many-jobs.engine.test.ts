import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { mkdir, mkdtemp, rm, rmdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createDockerRuntime } from './docker/docker-runtime.ts'
import { callEngine, readText } from './docker/engine-http.ts'
import { buildTestImage, missingFor, startEngine, type TestEngine } from './docker/engines.testing.ts'
import { detectCgroups } from './process/cgroup.ts'
import { createProcessRuntime } from './process/process-runtime.ts'
import type { JobSpec, Runtime } from './runtime.ts'

const run = promisify(execFile)
const JOBS = Number(process.env['TENON_MANY_JOBS'] ?? 30)
const STARTS_AT_ONCE = 8
const DISK_BYTES = 8 * 1_048_576
const TIMEOUT = 480_000
const never = () => new AbortController().signal
const log = pino({ level: 'silent' })
const limits = {
  memoryBytes: 64 * 1_048_576,
  cpus: 0.5,
  pids: 32,
  timeoutSeconds: 420,
  graceSeconds: 1,
}

/** Where jobs run, and everything that they might leave there. */
interface Place {
  runtime: Runtime
  /** A folder that every job sees. */
  gate: string
  /** The folder of a limited size that one of them fills; absent: its working folder. */
  disk?: string
  /** False where nothing bounds disk and processes: such hogs would take the machine with them. */
  isBounded: boolean
  left(): Promise<string[]>
}

/** All run at once: each waits for the gate, which opens when the last one runs. Starts come a few at a time. */
async function runMany({ runtime, gate, disk, isBounded, left }: Place): Promise<Listings> {
  const before = await left()
  const seen = [{ path: gate, writable: false }]
  const job = (jobId: string, script: string, mounts: JobSpec['mounts'] = seen): JobSpec => ({
    jobId,
    fence: 1,
    command: ['/bin/sh', '-c', script],
    env: { PATH: '/usr/bin:/bin' },
    files: {},
    mounts,
    network: 'egress',
    ...(runtime.name === 'process' ? {} : { ownNetwork: { env: {}, isDemanded: true } }),
    limits,
  })
  const wait = `until [ -e ${gate}/open ]; do sleep 0.5; done`
  const fill = `dd if=/dev/zero of=${disk ?? '.'}/big bs=1M count=64 2>/dev/null || echo full; ${wait}; exit 4`
  const bounded = [
    job('hog-disk', fill, disk === undefined ? seen : [...seen, { path: disk, writable: true }]),
    // The first process waits without a fork of its own: there is none to be had.
    job('hog-fork', `f() { f | f & }; (f) 2>/dev/null & until [ -e ${gate}/open ]; do :; done; exit 3`),
  ]
  const hogs = [
    job('hog-memory', 'tail /dev/zero; exit 1'),
    job('hog-cpu', 'while :; do :; done & while :; do :; done'),
    ...(isBounded ? bounded : []),
  ]
  const specs = Array.from({ length: JOBS }, (_, index) =>
    job(`many-${index}`, `echo "from ${index}"; ${wait}; echo "to ${index}"; exit ${index % 7}`),
  )
  try {
    await tryAll(runtime, hogs, specs, async () => {
      expect((await left()).length).toBeGreaterThan(before.length + JOBS)
      await writeFile(path.join(gate, 'open'), '')
    })
  } finally {
    await Promise.all([...hogs, ...specs].map(({ jobId }) => runtime.remove(jobId)))
  }
  expect(await runtime.list()).toEqual([])
  // An engine's own helper of a container ends a moment after it.
  const settled = async () => expect(await left()).toEqual(before)
  await vi.waitFor(settled, { timeout: 60_000, interval: 250 }).catch(() => undefined)
  return { before, after: await left() }
}

interface Listings {
  before: string[]
  after: string[]
}

async function tryAll(
  runtime: Runtime,
  hogs: JobSpec[],
  specs: JobSpec[],
  openGate: () => Promise<void>,
): Promise<void> {
  await startAll(runtime, [...hogs, ...specs])
  const running = (await runtime.list()).filter(({ state }) => state === 'running')
  expect(running.length).toBeGreaterThanOrEqual(JOBS)
  await openGate()
  const ends = await Promise.all(specs.map(({ jobId }) => endOf(runtime, jobId)))
  expect(ends).toEqual(
    specs.map((_, index) => ({ text: `from ${index}\nto ${index}\n`, exitCode: index % 7 })),
  )
  expect(await runtime.wait('hog-memory', never())).toMatchObject({ reason: 'oom' })
  if (hogs.some(({ jobId }) => jobId === 'hog-disk')) {
    expect(await endOf(runtime, 'hog-disk')).toEqual({ text: 'full\n', exitCode: 4 })
    expect(await runtime.wait('hog-fork', never())).toMatchObject({ reason: 'exit', exitCode: 3 })
  }
  await runtime.stop('hog-cpu', 0, 'canceled')
  expect(await runtime.wait('hog-cpu', never())).toMatchObject({ reason: 'canceled' })
}

async function startAll(runtime: Runtime, specs: JobSpec[]): Promise<void> {
  const queue = [...specs]
  const starter = async () => {
    for (let spec = queue.shift(); spec; spec = queue.shift()) await runtime.start(spec)
  }
  await Promise.all(Array.from({ length: STARTS_AT_ONCE }, starter))
}

async function endOf(runtime: Runtime, jobId: string) {
  const parts: Uint8Array[] = []
  for await (const bytes of runtime.logs(jobId, 0, never())) parts.push(bytes)
  const { exitCode } = await runtime.wait(jobId, never())
  return { text: Buffer.concat(parts).toString(), exitCode }
}

// Only root can mount a small disk.
const cgroupName = `tenon-many-${process.pid}`
const cgroups = await detectCgroups(cgroupName)
const bases = [...new Set(Object.values(cgroups?.bases ?? {}))]
for (const base of bases) await rmdir(base)
const isBounded = process.getuid?.() === 0 && cgroups?.bases.pids !== undefined
const held = isBounded ? 'process' : 'process (no hogs of disk and processes: not root, or no cgroups)'

describe(`${JOBS} jobs at once, and hogs beside them, on ${held}`, () => {
  let dir: string
  let disk: string
  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'tenon-many-'))
    disk = path.join(dir, 'disk')
    for (const made of [disk, path.join(dir, 'gate'), path.join(dir, 'jobs')]) await mkdir(made)
    const options = `size=${DISK_BYTES},mode=1777`
    if (isBounded) await run('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', disk])
  })
  afterAll(async () => {
    if (isBounded) await run('umount', ['--lazy', disk])
    await rm(dir, { recursive: true, force: true })
    for (const base of bases.filter((folder) => existsSync(folder))) await rmdir(base)
  })

  it('all end right, and nothing is left of any', { timeout: TIMEOUT }, async () => {
    const jobs = path.join(dir, 'jobs')
    const runtime = createProcessRuntime({ dir: jobs, log, cgroupName })
    const left = async () => [...traces(jobs), ...mountsIn(dir), ...bases.flatMap(foldersIn)]
    const gate = path.join(dir, 'gate')
    const { before, after } = await runMany({ runtime, gate, disk, isBounded, left })
    expect(after).toEqual(before)
  })
})

const missing = await missingFor('docker')
const title = missing === undefined ? 'docker' : `docker (${missing})`
describe.skipIf(missing !== undefined)(`${JOBS} jobs at once, and hogs beside them, on ${title}`, () => {
  let world: TestEngine
  let image: string
  beforeAll(async () => {
    world = await startEngine('docker')
    image = await world.load(await buildTestImage(world.dir))
  })
  afterAll(() => world.close())

  it('all end right, and nothing is left of any', { timeout: TIMEOUT }, async () => {
    const dir = path.join(world.dir, 'jobs')
    const gate = path.join(world.dir, 'gate')
    for (const made of [dir, gate]) await mkdir(made)
    const options = { socketPaths: [world.socketPath], dir, log, agentKey: 'many-test', image }
    const runtime = createDockerRuntime({ ...options, workBytes: DISK_BYTES })
    const ask = async (what: string) => {
      const answer = await callEngine(world.socketPath, { method: 'GET', path: what })
      return JSON.parse(await readText(answer)) as { Id: string }[] & { Volumes?: { Name: string }[] | null }
    }
    // Other engines of this machine have their cgroups in the same place.
    const own = new Set<string>()
    const containers = async () => (await ask('/containers/json?all=true')).map(({ Id }) => Id)
    const left = async () => [
      ...(await containers()).map((id) => own.add(id) && `container ${id}`),
      ...((await ask('/volumes')).Volumes ?? []).map(({ Name }) => `volume ${Name}`),
      ...(await ask('/networks')).map(({ Id }) => `network ${Id}`).toSorted(),
      ...traces(dir),
      ...mountsIn(world.dir),
      ...foldersIn('/sys/fs/cgroup').filter((folder) => own.has(path.basename(folder))),
    ]
    const { before, after } = await runMany({ runtime, gate, isBounded: true, left })
    expect(after).toEqual(before)
  })
})

/** Files, sockets too, and processes whose working folder lies in it. */
function traces(dir: string): string[] {
  const files = existsSync(dir) ? readdirSync(dir, { recursive: true, encoding: 'utf8' }) : []
  const pids = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && workingFolder(pid).startsWith(dir))
  return [...files, ...pids.map((pid) => `process ${pid}`)]
}

function mountsIn(dir: string): string[] {
  const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n')
  return mounts.map((line) => line.split(' ')[1] ?? '').filter((place) => place.startsWith(`${dir}/`))
}

function foldersIn(base: string): string[] {
  if (!existsSync(base)) return []
  const entries = readdirSync(base, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isDirectory())
    .map(({ parentPath, name }) => path.join(parentPath, name))
}

function workingFolder(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}
