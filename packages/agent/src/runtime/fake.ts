import { createExecOutput } from './exec-output.ts'
import { createFakeJobs } from './fake/jobs.ts'
import type { FakeClock, FakeJobs } from './fake/jobs.ts'
import { fakeBehaviourSchema, fakeEnd, fakeLog } from './fake/life.ts'
import type { FakeBehaviourInput, FakeState } from './fake/life.ts'
import { createFakeFolder, createFakeMemory } from './fake/store.ts'
import type { FakeStore } from './fake/store.ts'
import { ExecError, RuntimeError } from './runtime.ts'
import type { JobExit, JobHandle, JobSpec, Runtime } from './runtime.ts'
import { createStarts } from './starts.ts'

export interface FakeRuntimeOptions {
  /** Jobs live on in this folder when the agent dies. */
  dir?: string
  /** Instead of a folder; without both, jobs die with this object. */
  memory?: FakeStore
  clock?: FakeClock
  /** Comes before `env.TENON_FAKE`. */
  behaviour?: (spec: JobSpec) => FakeBehaviourInput | undefined
}

/** A runtime without processes whose jobs misbehave on demand: `env.TENON_FAKE` holds a `FakeBehaviour` as JSON. */
export interface FakeRuntime extends Runtime {
  /** Lets a job end that runs until it is released. */
  release(jobId: string): void
  /** Kills a job as a stranger would. */
  kill(jobId: string): void
  /** The job is gone without a trace, as after a lost machine. */
  vanish(jobId: string): void
}

export function createFakeRuntime(options: FakeRuntimeOptions = {}): FakeRuntime {
  const { clock = realClock } = options
  const folder = options.dir === undefined ? undefined : createFakeFolder(options.dir)
  const jobs = createFakeJobs(options.memory ?? folder ?? createFakeMemory(), clock)
  const starts = createStarts()

  async function wait(jobId: string, signal: AbortSignal): Promise<JobExit> {
    for (;;) {
      signal.throwIfAborted()
      const state = jobs.look(jobId)
      if (state === undefined) return { reason: 'gone', exitCode: null, message: 'There is no such job.' }
      const exit = jobs.exitOf(state)
      if (exit !== undefined) return exit
      await jobs.sleep(state, signal)
    }
  }

  return {
    name: 'fake',
    traits: { starts: 'program', reach: 'socket', isFake: true },
    describe: async () => ({ confinement: 'fake: no process runs', warnings: [] }),
    start: (spec) => starts.run(spec.jobId, () => start(jobs, clock, spec, options.behaviour)),
    async attach(jobId) {
      const state = jobs.look(jobId)
      return state && handleOf(jobs, state)
    },
    logs: (jobId, offset, signal) => logs(jobs, clock, jobId, offset, signal),
    wait,
    async exec(jobId, command) {
      const state = jobs.look(jobId)
      if (state === undefined || jobs.exitOf(state) !== undefined) {
        throw new ExecError('no_job', 'No such job runs.')
      }
      const output = createExecOutput(() => undefined)
      output.push({ stream: 'stdout', bytes: Buffer.from(`fake: ${command.join(' ')}\n`) })
      output.end()
      return { output, exitCode: Promise.resolve(0) }
    },
    async stop(jobId, graceSeconds, reason) {
      await starts.settled(jobId)
      const asked = { at: clock.now(), graceMs: graceSeconds * 1000, reason }
      jobs.changeRunning(jobId, (state) => ({ ...state, stop: state.stop ?? asked }))
      await wait(jobId, new AbortController().signal)
    },
    async remove(jobId) {
      await starts.settled(jobId)
      jobs.forget(jobId)
    },
    list: async () => jobs.all().map((state) => handleOf(jobs, state)),
    release: (jobId) => jobs.changeRunning(jobId, (state) => ({ ...state, releasedAt: clock.now() })),
    kill: (jobId) => jobs.changeRunning(jobId, (state) => ({ ...state, killedAt: clock.now() })),
    vanish: (jobId) => jobs.forget(jobId),
  }
}

async function start(
  jobs: FakeJobs,
  clock: FakeClock,
  spec: JobSpec,
  choose: FakeRuntimeOptions['behaviour'],
): Promise<JobHandle> {
  const earlier = jobs.look(spec.jobId)
  if (earlier !== undefined) return handleOf(jobs, earlier)
  const behaviour = behaviourOf(spec, choose)
  if (behaviour.startDelayMs > 0) await clock.sleep(behaviour.startDelayMs, new AbortController().signal)
  if (behaviour.startFailure !== undefined) {
    throw new RuntimeError(behaviour.startFailure, `The fake job ${spec.jobId} is told not to start.`)
  }
  const state = jobs.change({
    jobId: spec.jobId,
    fence: spec.fence,
    behaviour,
    startedAt: clock.now(),
    timeoutMs: spec.limits.timeoutSeconds * 1000,
    graceMs: spec.limits.graceSeconds * 1000,
  })
  return { ...handleOf(jobs, state), state: 'running' }
}

async function* logs(
  jobs: FakeJobs,
  clock: FakeClock,
  jobId: string,
  offset: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let position = offset
  while (!signal.aborted) {
    const state = jobs.look(jobId)
    if (state === undefined) return
    const now = clock.now()
    const end = fakeEnd(state)
    const printed = fakeLog(state, now).subarray(position)
    position += printed.length
    if (printed.length > 0) yield printed
    if (end !== undefined && end.at <= now) return
    await jobs.sleep(state, signal)
  }
}

function handleOf(jobs: FakeJobs, state: FakeState): JobHandle {
  const { jobId, fence } = state
  const ended = jobs.exitOf(state) !== undefined
  return { jobId, fence, state: ended ? 'ended' : 'running', folder: `/fake/${jobId}`, confinement: 'fake' }
}

function behaviourOf(spec: JobSpec, choose: FakeRuntimeOptions['behaviour']) {
  try {
    return fakeBehaviourSchema.parse(choose?.(spec) ?? JSON.parse(spec.env.TENON_FAKE ?? '{}'))
  } catch (cause) {
    throw new RuntimeError('start', `TENON_FAKE of job ${spec.jobId} is no fake behaviour.`, { cause })
  }
}

const realClock: FakeClock = {
  now: () => Date.now(),
  sleep: (milliseconds, signal) =>
    new Promise((resolve) => {
      if (signal.aborted) return resolve()
      const finish = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', finish)
        resolve()
      }
      const timer = setTimeout(finish, Math.max(0, milliseconds))
      signal.addEventListener('abort', finish)
    }),
}
