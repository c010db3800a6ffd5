import { existsSync } from 'node:fs'
import { mkdir, realpath } from 'node:fs/promises'
import type { Logger } from 'pino'
import { watchChanges } from '../changes.ts'
import { followLog } from '../follow-log.ts'
import { RuntimeError } from '../runtime.ts'
import type { JobExit, JobHandle, JobSpec, Runtime } from '../runtime.ts'
import { detectHost } from './host.ts'
import { isJobId, jobFolder, jobIds, readRecord } from './job-folder.ts'
import type { JobRecord } from './job-folder.ts'
import { killJob, outcomeOf, removeJob, requestStop } from './job-life.ts'
import { startJob } from './start-job.ts'
import { createLimitWatch } from './watch.ts'

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
  const starting = new Map<string, Promise<JobHandle>>()
  const prepared = once(async () => {
    await mkdir(options.dir, { recursive: true, mode: 0o700 })
    return { dir: await realpath(options.dir), host: await detectHost({ confine, useCgroups, cgroupName }) }
  })
  const folderOf = async (jobId: string) => jobFolder((await prepared()).dir, jobId)
  const outcome = async (jobId: string): Promise<JobExit | undefined> =>
    starting.has(jobId) ? undefined : outcomeOf(await folderOf(jobId))
  const watch = createLimitWatch({
    folderOf,
    log,
    now,
    isRunning: async (jobId) => (await outcome(jobId)) === undefined,
    stop,
  })

  async function handleOf(record: JobRecord): Promise<JobHandle> {
    const ended = (await outcomeOf(await folderOf(record.jobId))) !== undefined
    if (!ended) watch.add(record)
    return {
      jobId: record.jobId,
      fence: record.fence,
      state: ended ? 'ended' : 'running',
      folder: (await folderOf(record.jobId)).work,
      confinement: record.confinement,
    }
  }

  async function find(jobId: string): Promise<JobHandle | undefined> {
    const record = starting.has(jobId) ? undefined : await readRecord(await folderOf(jobId))
    return record && handleOf(record)
  }

  async function startNew(spec: JobSpec): Promise<JobHandle> {
    const { dir, host } = await prepared()
    const folder = jobFolder(dir, spec.jobId)
    if (isJobId(spec.jobId)) {
      const earlier = await readRecord(folder)
      const ended = earlier && (await outcomeOf(folder))
      if (earlier !== undefined && ended?.reason !== 'start') return handleOf(earlier)
      // Only a start that was cut short leaves a folder without a job in it.
      if (existsSync(folder.root)) await removeJob(folder)
    }
    try {
      await startJob(dir, host, spec, now)
    } catch (error) {
      if (isJobId(spec.jobId)) await removeJob(folder)
      if (error instanceof RuntimeError) throw error
      throw new RuntimeError('start', `Job ${spec.jobId} could not be started: ${(error as Error).message}`, {
        cause: error,
      })
    }
    const record = await readRecord(folder)
    if (record === undefined)
      throw new RuntimeError('start', `Job ${spec.jobId} was removed while it started.`)
    watch.add(record)
    const { confinement, fence } = record
    return { jobId: spec.jobId, fence, state: 'running', folder: folder.work, confinement }
  }

  async function stop(jobId: string, graceSeconds: number, reason: 'canceled' | 'timeout'): Promise<void> {
    if (!isJobId(jobId)) return
    await starting.get(jobId)?.catch(() => undefined)
    const folder = await folderOf(jobId)
    if ((await outcomeOf(folder)) !== undefined) return
    await requestStop(folder, graceSeconds, reason)
    const patience = AbortSignal.timeout(graceSeconds * 1000 + LAUNCHER_SLACK_MILLISECONDS)
    await wait(jobId, patience).catch(async () => {
      log.warn({ jobId }, 'the launcher of a job did not stop it in time; the agent kills it')
      await killJob(folder)
    })
  }

  async function wait(jobId: string, signal: AbortSignal): Promise<JobExit> {
    if (!isJobId(jobId)) return { reason: 'gone', exitCode: null, message: 'There is no such job.' }
    const folder = await folderOf(jobId)
    const changes = watchChanges([folder.run], POLL_MILLISECONDS, signal)
    try {
      for (;;) {
        signal.throwIfAborted()
        const exit = await outcome(jobId)
        if (exit !== undefined) return exit
        await changes.next()
      }
    } finally {
      changes.close()
    }
  }

  return {
    name: 'process',
    describe: async () => (await prepared()).host.description,
    start(spec) {
      const current = starting.get(spec.jobId)
      if (current !== undefined) return current
      const started = startNew(spec).finally(() => starting.delete(spec.jobId))
      starting.set(spec.jobId, started)
      return started
    },
    async attach(jobId) {
      if (!isJobId(jobId)) return undefined
      return (await starting.get(jobId)?.catch(() => undefined)) ?? find(jobId)
    },
    async *logs(jobId, offset, signal) {
      if (!isJobId(jobId)) return
      const folder = await folderOf(jobId)
      const ended = async () => (await outcome(jobId)) !== undefined
      yield* followLog(folder.log, offset, ended, signal, [folder.run])
    },
    wait,
    stop,
    async remove(jobId) {
      if (!isJobId(jobId)) return
      await starting.get(jobId)?.catch(() => undefined)
      await removeJob(await folderOf(jobId))
    },
    async list() {
      const { dir } = await prepared()
      const found = await Promise.all((await jobIds(dir)).map((jobId) => find(jobId)))
      return found.filter((handle) => handle !== undefined)
    },
  }
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => (made ??= make())
}
