import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { describeExec } from './contract-exec.testing.ts'
import { describeIsolation } from './contract-isolation.testing.ts'
import { RuntimeError } from './runtime.ts'
import type { JobSpec, Runtime } from './runtime.ts'

/** What a job shall do, each said in the runtime's own way. `hold` runs until it is stopped. */
export interface ContractPrograms {
  exit(code: number): Partial<JobSpec>
  /** Prints `line 1` to `line n`, a tenth of a second or more apart when `slowly`, then ends with 0. */
  print(lines: number, slowly: boolean): Partial<JobSpec>
  hold(): Partial<JobSpec>
  /** Prints `stopping` on SIGTERM and ends with 0. */
  stopWell(): Partial<JobSpec>
  ignoreStop(): Partial<JobSpec>
  failToStart(): Partial<JobSpec>
  exceedMemory(): Partial<JobSpec>
  /** The rest needs real processes and files. Prints its environment, one variable a line. */
  printEnv?(): Partial<JobSpec>
  printFile?(name: string): Partial<JobSpec>
  /** Prints `seen` when it can see the path, else `hidden`. */
  look?(path: string): Partial<JobSpec>
  /** Leaves a grandchild behind and holds. */
  leaveChildren?(): Partial<JobSpec>
}

export interface ContractHarness {
  /** A new Runtime object over the same state, as a restarted agent makes it. */
  open(): Runtime
  programs: ContractPrograms
  /** Kills the job's program as a stranger would. */
  kill(jobId: string): Promise<void>
  /** How many processes, cgroups, files of the job are left. */
  traces(jobId: string): Promise<string[]>
  /** Whether jobs are kept from each other's files here. */
  isConfined: boolean
  /** False where jobs cannot be given folders of the agent's machine. */
  seesHostFolders?: boolean
  close(): Promise<void>
}

const never = new AbortController().signal
const decoder = new TextDecoder()
let counter = 0

/** Skipped by name where `isPossible` says that this machine lacks what the runtime needs. */
export function describeRuntimeContract(
  name: string,
  makeHarness: () => Promise<ContractHarness>,
  isPossible = true,
  timeout = 90_000,
): void {
  describe.skipIf(!isPossible)(`the ${name} runtime`, { timeout }, () => {
    const suite: Suite = {
      harness: undefined as unknown as ContractHarness,
      runtime: undefined as unknown as Runtime,
      spec(program, more = {}) {
        const jobId = `job-${process.pid}-${++counter}`
        return { ...baseSpec(jobId, suite.harness.isConfined), ...program, ...more }
      },
    }
    beforeAll(async () => {
      suite.harness = await makeHarness()
      suite.runtime = suite.harness.open()
    })
    afterEach(async () => {
      for (const { jobId } of await suite.runtime.list()) {
        await suite.runtime.remove(jobId)
        expect(await suite.harness.traces(jobId)).toEqual([])
      }
    })
    afterAll(() => suite.harness.close(), 120_000)

    describeStarts(suite)
    describeEnds(suite)
    describeLogs(suite)
    describeStops(suite)
    describeRestart(suite)
    describeRemoval(suite)
    describeIsolation(suite, (jobId) => readLog(suite.runtime, jobId))
    describeExec(suite, (jobId) => readLog(suite.runtime, jobId))
  })
}

function describeStarts(suite: Suite): void {
  it('describes its confinement in words', async () => {
    const { confinement, warnings } = await suite.runtime.describe()
    expect(confinement).not.toBe('')
    for (const warning of warnings) expect(warning).toMatch(/\.$/)
  })

  it('returns the handle of a job that is started twice, and runs it once', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.print(1, false), { fence: 7 })
    const [first, second] = await Promise.all([runtime.start(spec), runtime.start(spec)])
    expect(first).toMatchObject({ jobId: spec.jobId, fence: 7 })
    expect(second).toEqual(first)
    await runtime.wait(spec.jobId, never)
    expect(await runtime.start(spec)).toMatchObject({ jobId: spec.jobId, state: 'ended' })
    expect(await readLog(runtime, spec.jobId)).toBe('line 1\n')
  })

  it('throws when a job cannot be started, and leaves nothing', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.failToStart())
    const failure = await runtime.start(spec).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(RuntimeError)
    expect(failure).toMatchObject({ reason: 'start' })
    expect(await runtime.attach(spec.jobId)).toBeUndefined()
    expect(await harness.traces(spec.jobId)).toEqual([])
  })
}

function describeEnds(suite: Suite): void {
  it.each([
    [0, 'completed'],
    [1, 'exit'],
    [42, 'exit'],
  ])('tells exit code %i as %s', async (code, reason) => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.exit(code))
    await runtime.start(spec)
    expect(await runtime.wait(spec.jobId, never)).toMatchObject({ reason, exitCode: code })
  })

  it('tells a job that ran out of memory', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.exceedMemory())
    await runtime.start(spec)
    expect(await runtime.wait(spec.jobId, never)).toMatchObject({ reason: 'oom' })
  })

  it('tells a job that a stranger killed', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.hold())
    await runtime.start(spec)
    await harness.kill(spec.jobId)
    expect(await runtime.wait(spec.jobId, never)).toMatchObject({ reason: 'signal' })
  })

  it.each(['unknown', '../outside', ''])('says that the job %j is gone', async (jobId) => {
    expect(await suite.runtime.wait(jobId, never)).toMatchObject({ reason: 'gone', exitCode: null })
    expect(await suite.runtime.attach(jobId)).toBeUndefined()
    expect(await readLog(suite.runtime, jobId)).toBe('')
    await suite.runtime.stop(jobId, 1, 'canceled')
    await suite.runtime.remove(jobId)
  })

  it('rejects a wait that is aborted', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.hold())
    await runtime.start(spec)
    const abort = new AbortController()
    const waiting = runtime.wait(spec.jobId, abort.signal)
    abort.abort()
    await expect(waiting).rejects.toThrow('aborted')
  })
}

function describeLogs(suite: Suite): void {
  it('gives the whole log from any offset, without gaps or repeats', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.print(200, false))
    await runtime.start(spec)
    const whole = await readLog(runtime, spec.jobId)
    expect(whole).toBe(expectedLines(200))
    for (const offset of [0, 1, 6, 700, whole.length - 1, whole.length, whole.length + 5]) {
      expect(await readLog(runtime, spec.jobId, offset)).toBe(whole.slice(offset))
    }
  })

  it('follows the log of a running job and ends with it', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.print(20, true))
    await runtime.start(spec)
    let text = ''
    let sawRunning = false
    for await (const bytes of runtime.logs(spec.jobId, 0, never)) {
      text += decoder.decode(bytes)
      sawRunning ||= (await runtime.attach(spec.jobId))?.state === 'running'
    }
    expect(text).toBe(expectedLines(20))
    expect(sawRunning).toBe(true)
  })

  it('ends a log on abort while the job goes on', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.hold())
    await runtime.start(spec)
    const abort = new AbortController()
    const reading = readLog(runtime, spec.jobId, 0, abort.signal)
    abort.abort()
    await reading
    expect(await runtime.attach(spec.jobId)).toMatchObject({ state: 'running' })
  })
}

function describeStops(suite: Suite): void {
  it('lets a stopped job end well and calls it canceled', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.stopWell())
    await runtime.start(spec)
    await logHas(runtime, spec.jobId, 'up\n')
    await runtime.stop(spec.jobId, 10, 'canceled')
    expect(await runtime.wait(spec.jobId, never)).toMatchObject({ reason: 'canceled' })
    expect(await readLog(runtime, spec.jobId)).toBe('up\nstopping\n')
  })

  it('kills a job that ignores the stop after the grace', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.ignoreStop())
    await runtime.start(spec)
    await logHas(runtime, spec.jobId, 'up\n')
    const before = Date.now()
    await runtime.stop(spec.jobId, 1, 'canceled')
    expect(await runtime.wait(spec.jobId, never)).toMatchObject({ reason: 'canceled' })
    const took = Date.now() - before
    expect(took).toBeGreaterThan(900)
    // Loose for a busy machine; a limit that is not held would wait for the whole of the job.
    expect(took).toBeLessThan(30_000)
  })

  it('stops a job right after its start', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.hold())
    await runtime.start(spec)
    // So long a grace outlives this test: the job ends by the first signal, or not at all.
    await runtime.stop(spec.jobId, 600, 'canceled')
    expect(await runtime.wait(spec.jobId, never)).toMatchObject({ reason: 'canceled' })
  })

  it('tells a job that went past its time limit', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.hold())
    await runtime.start({ ...spec, limits: { ...spec.limits, timeoutSeconds: 1 } })
    expect(await runtime.wait(spec.jobId, never)).toMatchObject({ reason: 'timeout' })
  })

  it('leaves the end of a job alone that is stopped too late', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.exit(3))
    await runtime.start(spec)
    await runtime.wait(spec.jobId, never)
    await runtime.stop(spec.jobId, 1, 'canceled')
    expect(await runtime.wait(spec.jobId, never)).toMatchObject({ reason: 'exit', exitCode: 3 })
  })
}

function describeRestart(suite: Suite): void {
  it('finds running and ended jobs again after a restart of the agent', async () => {
    const { runtime, harness } = suite
    const running = suite.spec(harness.programs.hold(), { fence: 3 })
    const ended = suite.spec(harness.programs.exit(5), { fence: 4 })
    await runtime.start(running)
    await runtime.start(ended)
    await runtime.wait(ended.jobId, never)
    const restarted = harness.open()
    const found = await restarted.list()
    expect(found).toHaveLength(2)
    expect(found).toContainEqual(
      expect.objectContaining({ jobId: running.jobId, fence: 3, state: 'running' }),
    )
    expect(found).toContainEqual(expect.objectContaining({ jobId: ended.jobId, fence: 4, state: 'ended' }))
    expect(await restarted.wait(ended.jobId, never)).toMatchObject({ reason: 'exit', exitCode: 5 })
    expect(await restarted.start(running)).toMatchObject({ state: 'running', fence: 3 })
    await restarted.stop(running.jobId, 10, 'canceled')
    expect(await restarted.wait(running.jobId, never)).toMatchObject({ reason: 'canceled' })
  })

  it('goes on with a log where the earlier agent stopped reading', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.print(20, true))
    await runtime.start(spec)
    const abort = new AbortController()
    let before = ''
    for await (const bytes of runtime.logs(spec.jobId, 0, abort.signal)) {
      before += decoder.decode(bytes)
      if (before.length > 30) abort.abort()
    }
    const after = await readLog(harness.open(), spec.jobId, before.length)
    expect(before + after).toBe(expectedLines(20))
  })

  it('stops a job at its time limit for an agent that came later', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.hold())
    await runtime.start({ ...spec, limits: { ...spec.limits, timeoutSeconds: 1 } })
    const restarted = harness.open()
    await restarted.attach(spec.jobId)
    expect(await restarted.wait(spec.jobId, never)).toMatchObject({ reason: 'timeout' })
    await restarted.remove(spec.jobId)
    expect(await harness.traces(spec.jobId)).toEqual([])
  })
}

function describeRemoval(suite: Suite): void {
  it('removes a running job with everything, as often as it is asked', async () => {
    const { runtime, harness } = suite
    const spec = suite.spec(harness.programs.hold())
    await runtime.start(spec)
    await Promise.all([runtime.remove(spec.jobId), runtime.remove(spec.jobId)])
    await runtime.remove(spec.jobId)
    expect(await harness.traces(spec.jobId)).toEqual([])
    expect(await runtime.list()).toEqual([])
    expect(await runtime.wait(spec.jobId, never)).toMatchObject({ reason: 'gone' })
  })

  it('removes the grandchildren that a job left behind', async ({ skip }) => {
    const { runtime, harness } = suite
    const program = harness.programs.leaveChildren?.() ?? skip('no real processes')
    const spec = suite.spec(program)
    await runtime.start(spec)
    await logHas(runtime, spec.jobId, 'up\n')
    await runtime.remove(spec.jobId)
    expect(await harness.traces(spec.jobId)).toEqual([])
  })
}

function baseSpec(jobId: string, isConfined: boolean): JobSpec {
  return {
    jobId,
    fence: 1,
    command: ['/bin/true'],
    env: { PATH: '/usr/bin:/bin' },
    files: {},
    mounts: [],
    network: isConfined ? 'internal' : 'egress',
    ...(isConfined ? { ownNetwork: { env: {}, isDemanded: true } } : {}),
    limits: { memoryBytes: 256 << 20, cpus: 1, pids: 64, timeoutSeconds: 60, graceSeconds: 1 },
  }
}

async function readLog(
  runtime: Runtime,
  jobId: string,
  offset = 0,
  signal: AbortSignal = never,
): Promise<string> {
  const chunks: Uint8Array[] = []
  for await (const bytes of runtime.logs(jobId, offset, signal)) chunks.push(bytes)
  return decoder.decode(Buffer.concat(chunks))
}

async function logHas(runtime: Runtime, jobId: string, text: string): Promise<void> {
  let seen = ''
  for await (const bytes of runtime.logs(jobId, 0, never)) {
    seen += decoder.decode(bytes)
    if (seen.includes(text)) return
  }
  throw new Error(`The log ended without ${JSON.stringify(text)}: ${seen}`)
}

function expectedLines(count: number): string {
  return Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join('')
}

export interface Suite {
  harness: ContractHarness
  runtime: Runtime
  spec(program: Partial<JobSpec>, more?: Partial<JobSpec>): JobSpec
}
