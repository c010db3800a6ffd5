import { readdirSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JobSpec, Runtime } from '../runtime.ts'
import { createDockerRuntime } from './docker-runtime.ts'
import type { DockerRuntimeOptions } from './docker-runtime.ts'
import { createEngine } from './engine.ts'
import { callEngine, readText } from './engine-http.ts'
import { buildTestImage, missingFor, startEngine } from './engines.testing.ts'
import type { EngineName, TestEngine } from './engines.testing.ts'

const never = new AbortController().signal
const MEGABYTE = 1024 * 1024
const PARALLEL = 20

for (const name of ['docker', 'podman'] as const) {
  const missing = await missingFor(name)
  const title = missing === undefined ? name : `${name} (${missing})`
  describe.skipIf(missing !== undefined)(`a container of ${title}`, { timeout: 120_000 }, () => {
    describeEngine(name)
  })
}

function describeEngine(name: EngineName): void {
  let world: TestEngine
  let image: string
  const open = (more: Partial<DockerRuntimeOptions> = {}) =>
    createDockerRuntime({
      socketPaths: [world.socketPath],
      dir: path.join(world.dir, 'jobs'),
      log: pino({ level: 'silent' }),
      agentKey: 'walls-test',
      image,
      ...more,
    })
  beforeAll(async () => {
    world = await startEngine(name)
    image = await world.load(await buildTestImage(world.dir))
  })
  afterAll(() => world.close())

  it.each([
    ['is no root', 'id -u; id -g', /^65532\n65532\n$/],
    ['has no capabilities', 'grep -E "Cap(Eff|Prm|Bnd)" /proc/self/status', /^(Cap...:\t0+\n){3}$/],
    ['can gain no privileges', 'grep NoNewPrivs /proc/self/status', /^NoNewPrivs:\t1\n$/],
    ['is under seccomp', 'grep Seccomp: /proc/self/status', /^Seccomp:\t2\n$/],
    ['cannot write to its root', 'touch /bin/x 2>/dev/null || echo refused', /^refused\n$/],
    [
      'has a temporary folder',
      'echo a >/tmp/x && cat /tmp/x && echo b >$TMPDIR/y && cat $TMPDIR/y',
      /^a\nb\n$/,
    ],
    ['has no network but its own', 'ls /sys/class/net', /^lo\n$/],
    [
      'cannot put a link in the place of its log',
      'ln -sf /etc/passwd /.tenon/log 2>/dev/null || echo refused',
      /^refused\n$/,
    ],
    [
      'cannot write what the agent tells it',
      'touch /.tenon/control/stop 2>/dev/null || echo refused',
      /^refused\n$/,
    ],
    ['writes no core files', 'ulimit -c', /^0\n$/],
  ])('%s', async (title, script, answer) => {
    const spec = jobSpec(title.replaceAll(' ', '-'), script)
    expect(await printed(open(), spec)).toMatch(answer)
  })

  it('has a network when its kind of job needs one', async () => {
    const spec = jobSpec('egress', 'ls /sys/class/net; grep -c nameserver /etc/resolv.conf', {
      network: 'egress',
    })
    expect(await printed(open(), spec)).toMatch(/eth0\nlo\n/)
  })

  it('keeps secrets out of what the engine shows', async () => {
    const runtime = open()
    const spec = jobSpec('secret', 'cat token; sleep 1000', { files: { token: 'very-secret-token' } })
    await runtime.start(spec)
    await logHas(runtime, spec.jobId, 'very-secret-token')
    const answer = await callEngine(world.socketPath, {
      method: 'GET',
      path: '/containers/tenon-walls-test-secret/json',
    })
    const shown = await readText(answer)
    expect(shown).toContain('tenon.job')
    expect(shown).not.toContain('very-secret-token')
    expect(await engineLog(world.socketPath, 'tenon-walls-test-secret')).not.toContain('very-secret-token')
    await runtime.remove(spec.jobId)
  })

  it('is told in words when its image cannot be had, and leaves nothing', async () => {
    const runtime = open()
    const digest = `sha256:${'0'.repeat(64)}`
    const spec = jobSpec('imageless', 'true', { image: `127.0.0.1:9/tenon/job@${digest}` })
    const before = Date.now()
    const failure = await runtime.start(spec).catch((error: unknown) => error)
    expect(failure).toMatchObject({
      reason: 'image',
      message: expect.stringContaining('127.0.0.1:9/tenon/job'),
    })
    expect(Date.now() - before).toBeLessThan(15_000)
    expect(await runtime.list()).toEqual([])
  })

  it('is told in words when a folder it shall see is not there', async () => {
    const spec = jobSpec('mountless', 'true', { mounts: [{ path: '/no/such/folder', writable: false }] })
    await expect(open().start(spec)).rejects.toMatchObject({
      reason: 'start',
      message: expect.stringContaining('/no/such/folder'),
    })
  })

  it('ends at its time limit though it killed its clock', async () => {
    const runtime = open({ now: () => Date.now() + clockAhead })
    let clockAhead = 0
    const spec = jobSpec('clockless', 'kill -9 -1; echo up; while true; do sleep 1; done')
    await runtime.start(spec)
    await logHas(runtime, spec.jobId, 'up\n')
    clockAhead = 3_600_000
    expect(await runtime.wait(spec.jobId, never)).toMatchObject({ reason: 'timeout' })
    await runtime.remove(spec.jobId)
  })

  it('is waited for over a restart of the engine', async () => {
    const runtime = open()
    // Docker takes its containers down with it, however long they would run; Podman's need no engine.
    const spec = jobSpec('restart', name === 'docker' ? 'exec sleep 1000' : 'sleep 3; exit 6')
    await runtime.start(spec)
    const ending = runtime.wait(spec.jobId, never)
    await world.restart()
    const expected = name === 'docker' ? { reason: 'signal' } : { reason: 'exit', exitCode: 6 }
    expect(await ending).toMatchObject(expected)
    await runtime.remove(spec.jobId)
  })

  it('harms no other when it wants all memory, processes, CPU or disk', async () => {
    const runtime = open({ workBytes: 8 * MEGABYTE })
    const hogs = [
      jobSpec('memory', 'exec tail /dev/zero'),
      jobSpec(
        'fork',
        'f() { f | f & }; f 2>/dev/null; sleep 2; ls /proc | grep -c "^[0-9]" >count; cat count; exit 3',
      ),
      jobSpec('cpu', 'while true; do :; done', { limits: { ...limits, timeoutSeconds: 3 } }),
      jobSpec(
        'disk',
        'cat token; dd if=/dev/zero of=big bs=1M count=64 2>/dev/null || echo full; stat -c %s big',
        {
          files: { token: 'kept\n' },
        },
      ),
    ]
    const good = jobSpec('good', 'i=0; while [ $i -lt 20 ]; do i=$((i + 1)); echo $i; sleep 0.05; done')
    await Promise.all([...hogs, good].map((spec) => runtime.start(spec)))
    const [memory, fork, cpu, disk, fine] = await Promise.all(
      [...hogs, good].map(({ jobId }) => runtime.wait(jobId, never)),
    )
    expect(fine).toMatchObject({ reason: 'completed' })
    expect(memory).toMatchObject({ reason: 'oom' })
    expect(['exit', 'oom', 'timeout']).toContain(fork?.reason)
    expect(cpu).toMatchObject({ reason: 'timeout' })
    expect(disk).toMatchObject({ reason: 'completed' })
    expect(await readLog(runtime, 'disk')).toMatch(new RegExp(`^kept\nfull\n${8 * MEGABYTE - 4096}\n$`))
    for (const { jobId } of [...hogs, good]) await runtime.remove(jobId)
  })

  it(`runs ${PARALLEL} jobs at once and leaves nothing behind`, { timeout: 300_000 }, async () => {
    const runtime = open()
    const engine = createEngine([world.socketPath])
    const before = await engine.list('tenon.agent')
    const specs = Array.from({ length: PARALLEL }, (_, index) =>
      jobSpec(`many-${index}`, `echo "from ${index}"; sleep 0.5; exit ${index % 7}`),
    )
    const ends = await Promise.all(
      specs.map(async (spec) => {
        await runtime.start(spec)
        const [text, exit] = await Promise.all([
          readLog(runtime, spec.jobId),
          runtime.wait(spec.jobId, never),
        ])
        return { text, exitCode: exit.exitCode }
      }),
    )
    expect(ends).toEqual(specs.map((_, index) => ({ text: `from ${index}\n`, exitCode: index % 7 })))
    const containers = await engine.list('tenon.agent=walls-test')
    expect(containers).toHaveLength(PARALLEL)
    await Promise.all(specs.map(({ jobId }) => runtime.remove(jobId)))
    expect(await engine.list('tenon.agent')).toEqual(before)
    expect(await readdir(path.join(world.dir, 'jobs'))).toEqual([])
    expect(cgroupsOf(containers.map(({ id }) => id))).toEqual([])
  })
}

const limits = { memoryBytes: 64 * MEGABYTE, cpus: 0.5, pids: 32, timeoutSeconds: 60, graceSeconds: 1 }

function jobSpec(jobId: string, script: string, more: Partial<JobSpec> = {}): JobSpec {
  return {
    jobId,
    fence: 1,
    command: ['/bin/sh', '-c', script],
    env: { PATH: '/usr/bin:/bin' },
    files: {},
    mounts: [],
    network: 'internal',
    ...(more.network === undefined ? { ownNetwork: { env: {}, isDemanded: true } } : {}),
    limits,
    ...more,
  }
}

async function printed(runtime: Runtime, spec: JobSpec): Promise<string> {
  await runtime.start(spec)
  const text = await readLog(runtime, spec.jobId)
  await runtime.remove(spec.jobId)
  return text
}

async function readLog(runtime: Runtime, jobId: string): Promise<string> {
  let text = ''
  for await (const bytes of runtime.logs(jobId, 0, never)) text += Buffer.from(bytes).toString()
  return text
}

async function logHas(runtime: Runtime, jobId: string, wanted: string): Promise<void> {
  let text = ''
  for await (const bytes of runtime.logs(jobId, 0, never)) {
    text += Buffer.from(bytes).toString()
    if (text.includes(wanted)) return
  }
  throw new Error(`The log ended without ${wanted}: ${text}`)
}

async function engineLog(socketPath: string, container: string): Promise<string> {
  const path = `/containers/${container}/logs`
  return readText(await callEngine(socketPath, { method: 'GET', path, query: { stdout: '1', stderr: '1' } }))
}

/** Wherever an engine and its driver put them. */
function cgroupsOf(containers: string[]): string[] {
  const folders = readdirSync('/sys/fs/cgroup', { recursive: true, encoding: 'utf8' })
  return folders.filter((folder) => containers.some((id) => folder.includes(id)))
}
