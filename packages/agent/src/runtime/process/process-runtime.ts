import { existsSync } from 'node:fs'
import { mkdir, realpath } from 'node:fs/promises'
import type { Logger } from 'pino'
import { boundLog } from '../bound-log.ts'
import { watchChanges } from '../changes.ts'
import { followLog } from '../follow-log.ts'
import { ExecError, RuntimeError } from '../runtime.ts'
import type { ExecOptions, JobExec, JobExit, JobHandle, JobSpec, Runtime } from '../runtime.ts'
import { createStarts } from '../starts.ts'
import type { Starts } from '../starts.ts'
import { foreseeJoin } from './cgroup.ts'
import { execInJob } from './exec-in-job.ts'
import { detectHost } from './host.ts'
import type { Host } from './host.ts'
import { isJobId, jobFolder, jobIds, readRecord } from './job-folder.ts'
import type { JobFolder, JobRecord } from './job-folder.ts'
import { killJob, outcomeOf, removeJob, requestStop } from './job-life.ts'
import { startJob } from './start-job.ts'
import { createLimitWatch } from './watch.ts'
import type { LimitWatch } from './watch.ts'

const POLL_MILLISECONDS = 1000
/** How much longer than the launcher the agent waits before it kills a job itself. */
const LAUNCHER_SLACK_MILLISECONDS = 2000

export interface ProcessRuntimeOptions {
  /** Holds one folder per job; what an earlier life of the agent left there is found again. */
  dir: string
  log: Logger
  now?: () => number
  /** False leaves bubblewrap aside even where it works. */
  confine?: boolean
  /** False leaves cgroups aside even where they work. */
  useCgroups?: boolean
  /** The folder at the root of each cgroup mount that holds the jobs' cgroups. */
  cgroupName?: string
}

/** Jobs as processes of this machine, each under its own launcher, which outlives the agent. */
export function createProcessRuntime(options: ProcessRuntimeOptions): Runtime {
  const { log, now = Date.now, confine = true, useCgroups = true, cgroupName = 'tenon' } = options
  const prepared = once(async () => {
    await mkdir(options.dir, { recursive: true, mode: 0o700 })
    return { dir: await realpath(options.dir), host: await detectHost({ confine, useCgroups, cgroupName }) }
  })
  const folderOf = async (jobId: string) => jobFolder((await prepared()).dir, jobId)
  const starts = createStarts()
  const watch = createLimitWatch({
    folderOf,
    log,
    now,
    isRunning: async (jobId) => (await outcome(context, jobId)) === undefined,
    stop: (jobId, graceSeconds, reason) => stop(context, jobId, graceSeconds, reason),
  })
  const context: Context = { prepared, folderOf, starts, watch, log, now }

  return {
    name: 'process',
    traits: { starts: 'program', reach: 'socket' },
    describe: async () => (await prepared()).host.description,
    expect: () => void prepared().then(({ host }) => host.cgroups && foreseeJoin(host.cgroups), ignore),
    start: (spec) => starts.run(spec.jobId, () => start(context, spec)),
    async attach(jobId) {
      await starts.settled(jobId)
      return isJobId(jobId) ? find(context, jobId) : undefined
    },
    async *logs(jobId, offset, signal) {
      if (!isJobId(jobId)) return
      const folder = await folderOf(jobId)
      const ended = async () => (await outcome(context, jobId)) !== undefined
      yield* followLog(folder.log, offset, ended, signal, [folder.run])
    },
    boundLog: async (jobId, keep) => (isJobId(jobId) ? boundLog((await folderOf(jobId)).log, keep) : 0),
    wait: (jobId, signal) => wait(context, jobId, signal),
    exec: (jobId, command, execOptions) => exec(context, jobId, command, execOptions),
    stop: (jobId, graceSeconds, reason) => stop(context, jobId, graceSeconds, reason),
    async remove(jobId) {
      await starts.settled(jobId)
      if (isJobId(jobId)) await removeJob(await folderOf(jobId))
    },
    async list() {
      const { dir } = await prepared()
      const settled = (await jobIds(dir)).filter((jobId) => !starts.has(jobId))
      const found = await Promise.all(settled.map((jobId) => find(context, jobId)))
      return found.filter((handle) => handle !== undefined)
    },
  }
}

async function start(context: Context, spec: JobSpec): Promise<JobHandle> {
  const { dir, host } = await context.prepared()
  const folder = jobFolder(dir, spec.jobId)
  if (isJobId(spec.jobId)) {
    const earlier = await readRecord(folder)
    const ended = earlier && (await outcomeOf(folder))
    if (earlier !== undefined && ended?.reason !== 'start') return handleOf(context, earlier)
    // Only a start that was cut short leaves a folder without a job in it.
    if (existsSync(folder.root)) await removeJob(folder)
  }
  try {
    const record = await startJob(dir, host, spec, context.now)
    context.watch.add(record)
    const { jobId, fence, confinement } = record
    return { jobId, fence, state: 'running', folder: folder.work, confinement }
  } catch (error) {
    if (isJobId(spec.jobId)) await removeJob(folder)
    if (error instanceof RuntimeError) throw error
    const message = `Job ${spec.jobId} could not be started: ${(error as Error).message}`
    throw new RuntimeError('start', message, { cause: error })
  }
}

async function find(context: Context, jobId: string): Promise<JobHandle | undefined> {
  const record = await readRecord(await context.folderOf(jobId))
  return record && handleOf(context, record)
}

async function handleOf(context: Context, record: JobRecord): Promise<JobHandle> {
  const folder = await context.folderOf(record.jobId)
  const ended = (await outcomeOf(folder)) !== undefined
  if (!ended) context.watch.add(record)
  const { jobId, fence, confinement } = record
  return { jobId, fence, state: ended ? 'ended' : 'running', folder: folder.work, confinement }
}

async function outcome(context: Context, jobId: string): Promise<JobExit | undefined> {
  return context.starts.has(jobId) ? undefined : outcomeOf(await context.folderOf(jobId))
}

async function wait(context: Context, jobId: string, signal: AbortSignal): Promise<JobExit> {
  if (!isJobId(jobId)) return { reason: 'gone', exitCode: null, message: 'There is no such job.' }
  const folder = await context.folderOf(jobId)
  const changes = watchChanges([folder.run], POLL_MILLISECONDS, signal)
  try {
    for (;;) {
      signal.throwIfAborted()
      const exit = await outcome(context, jobId)
      if (exit !== undefined) return exit
      await changes.next()
    }
  } finally {
    changes.close()
  }
}

async function exec(
  context: Context,
  jobId: string,
  command: string[],
  options: ExecOptions,
): Promise<JobExec> {
  await context.starts.settled(jobId)
  const isRunning = isJobId(jobId) && (await outcome(context, jobId)) === undefined
  if (!isRunning) throw new ExecError('no_job', 'No such job runs.')
  return execInJob(await context.folderOf(jobId), command, options)
}

async function stop(
  context: Context,
  jobId: string,
  graceSeconds: number,
  reason: 'canceled' | 'timeout',
): Promise<void> {
  if (!isJobId(jobId)) return
  await context.starts.settled(jobId)
  const folder = await context.folderOf(jobId)
  if ((await outcomeOf(folder)) !== undefined) return
  await requestStop(folder, graceSeconds, reason)
  const patience = AbortSignal.timeout(graceSeconds * 1000 + LAUNCHER_SLACK_MILLISECONDS)
  await wait(context, jobId, patience).catch(async () => {
    context.log.warn({ jobId }, 'the launcher of a job did not stop it in time; the agent kills it')
    await killJob(folder)
  })
}

/** Whoever starts a job is told why that cannot be. */
function ignore(): void {}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => (made ??= make())
}

interface Context {
  prepared(): Promise<{ dir: string; host: Host }>
  folderOf(jobId: string): Promise<JobFolder>
  starts: Starts
  watch: LimitWatch
  log: Logger
  now(): number
}
