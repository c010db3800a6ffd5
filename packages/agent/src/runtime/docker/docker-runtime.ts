import { existsSync } from 'node:fs'
import { mkdir, realpath } from 'node:fs/promises'
import type { Logger } from 'pino'
import { kept } from '../../ground/kept.ts'
import { boundLog } from '../bound-log.ts'
import { followLog } from '../follow-log.ts'
import { ExecError, RuntimeError } from '../runtime.ts'
import type {
  ExecOptions,
  JobExec,
  JobExit,
  JobHandle,
  JobSpec,
  Runtime,
  RuntimeDescription,
} from '../runtime.ts'
import { createStarts } from '../starts.ts'
import type { Starts } from '../starts.ts'
import { hasEnded } from './container-end.ts'
import { LABELS } from './container-spec.ts'
import { EngineError } from './engine-http.ts'
import { createEngine } from './engine.ts'
import type { ContainerState, Engine } from './engine.ts'
import { followEnd, outcomeOf } from './follow-end.ts'
import { chooseHost, describeHost, JOB_USER } from './host.ts'
import type { Host } from './host.ts'
import { isJobId, jobFolder, jobIds, readExit, readRecord, removeJobFolder, writeStop } from './job-folder.ts'
import type { JobFolder, StopReason } from './job-folder.ts'
import type { RegistryAuth } from './pull-image.ts'
import { removeContainer } from './remove-container.ts'
import { createDockerServices } from './services.ts'
import type { DockerServices } from './services.ts'
import { startContainer } from './start-container.ts'

/** How much longer than the wrapper the agent waits before it kills a job itself. */
const STOP_SLACK_MILLISECONDS = 1_000
/** Of each replica of a service, unless told. */
const SERVICE_BYTES = 1024 * 1024 * 1024

export interface DockerRuntimeOptions {
  /** Where the engine may listen; the first that is there is used. The agent may start before its engine. */
  socketPaths: string[]
  /** Holds one folder per job. The engine must see it under the same path. */
  dir: string
  log: Logger
  /** Tells the containers of this agent from those of others on the same engine. */
  agentKey: string
  /** By digest or id; the image of every job whose spec names none. */
  image: string
  registryAuth?: (image: string) => Promise<RegistryAuth | undefined>
  /** Bounds what a job writes, in memory that counts as the job's; without it a job works on the disk. */
  workBytes?: number | undefined
  /** What each replica of a service may have. */
  serviceBytes?: number | undefined
  now?: () => number
}

/** Jobs as containers of a Docker or Podman engine. A container needs neither the agent nor, on Podman, the engine. */
export function createDockerRuntime(options: DockerRuntimeOptions): Runtime {
  const context = createContext(options)
  const { engine, starts, log } = context
  return {
    name: 'docker',
    traits: {
      starts: 'image',
      reach: 'socket',
      jobGroup: process.getuid?.() === 0 ? JOB_USER.gid : undefined,
    },
    services: context.services,
    describe: () => describe(context),
    start: (spec) => starts.run(spec.jobId, () => start(context, spec)),
    async attach(jobId) {
      await starts.settled(jobId)
      return isJobId(jobId) ? find(context, jobId) : undefined
    },
    logs: (jobId, offset, signal) => logs(context, jobId, offset, signal),
    boundLog: async (jobId, keep) =>
      isJobId(jobId) ? boundLog((await context.folderOf(jobId)).log, keep) : 0,
    async wait(jobId, signal) {
      if (!isJobId(jobId)) return { reason: 'gone', exitCode: null, message: 'There is no such job.' }
      await starts.settled(jobId)
      return followEnd(context, await context.folderOf(jobId), context.nameOf(jobId), signal)
    },
    exec: (jobId, command, execOptions) => exec(context, jobId, command, execOptions),
    stop: (jobId, graceSeconds, reason) => stop(context, jobId, graceSeconds, reason),
    async remove(jobId) {
      await starts.settled(jobId)
      if (isJobId(jobId)) await removeJob(context, jobId)
    },
    async list() {
      const containers = await engine.list(`${LABELS.agent}=${options.agentKey}`)
      const labelled = containers.map(({ labels }) => labels[LABELS.job] ?? '').filter(isJobId)
      const known = await jobIds(await context.prepared())
      const ids = [...new Set([...known, ...labelled])].filter((jobId) => !starts.has(jobId))
      const found = await Promise.all(ids.map((jobId) => find(context, jobId)))
      log.debug({ containers: containers.length, folders: known.length }, 'jobs listed')
      return found.filter((handle) => handle !== undefined)
    },
  }
}

function createContext(options: DockerRuntimeOptions): Context {
  const { agentKey, log, now = Date.now } = options
  const engine = createEngine(options.socketPaths)
  const prepared = kept(async () => {
    await mkdir(options.dir, { recursive: true, mode: 0o700 })
    return realpath(options.dir)
  })
  const agent = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
  const nameOf = (jobId: string) => `tenon-${agentKey.slice(0, 16)}-${jobId}`
  const { registryAuth, serviceBytes: memoryBytes = SERVICE_BYTES } = options
  return {
    options,
    engine,
    log,
    now,
    starts: createStarts(),
    prepared,
    host: kept(async () => chooseHost(await engine.about(), agent)),
    folderOf: async (jobId) => jobFolder(await prepared(), jobId),
    nameOf,
    services: createDockerServices({ engine, agentKey, registryAuth, memoryBytes, nameOf, log }),
  }
}

async function describe(context: Context): Promise<RuntimeDescription> {
  const { engine, options, host } = context
  try {
    const { confinement, warnings } = describeHost(await host())
    const isHere = (await engine.image(options.image)) !== undefined
    const missing = `The job image ${options.image} is not on the engine yet; the first job pulls it.`
    return { confinement, warnings: isHere ? warnings : [...warnings, missing] }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    const remedy = 'No job can start until the engine runs and TENON_DOCKER_SOCKET leads to it.'
    return { confinement: 'none: the container engine is away', warnings: [error.message, remedy] }
  }
}

async function start(context: Context, spec: JobSpec): Promise<JobHandle> {
  const { options, engine, log, now } = context
  const { jobId, fence } = spec
  const folder = await context.folderOf(jobId)
  const name = context.nameOf(jobId)
  try {
    if (isJobId(jobId)) {
      const earlier = await find(context, jobId)
      if (earlier !== undefined) return earlier
      // Only a start that was cut short leaves a folder without a job in it.
      if (existsSync(folder.root)) await removeJob(context, jobId)
    }
    const { agentKey, image, registryAuth, workBytes } = options
    const host = await context.host()
    const settings = { engine, host, image, registryAuth, agentKey, workBytes, log, now }
    const { confinement } = await startContainer(settings, folder, name, spec)
    return { jobId, fence, state: 'running', folder: folder.work, confinement }
  } catch (error) {
    if (isJobId(jobId))
      await removeJob(context, jobId).catch((err: unknown) =>
        log.error({ err, jobId }, 'a failed start left something behind'),
      )
    if (error instanceof RuntimeError && error.reason === 'image') throw error
    const message = `Job ${jobId} could not be started: ${(error as Error).message}`
    throw new RuntimeError('start', message, { cause: error })
  }
}

/** What ran or runs; undefined for a job that is unknown or whose start was cut short. */
async function find(context: Context, jobId: string): Promise<JobHandle | undefined> {
  const folder = await context.folderOf(jobId)
  const record = await readRecord(folder)
  const container = record === undefined ? await context.engine.inspect(context.nameOf(jobId)) : undefined
  if (record === undefined) return container && orphanHandle(jobId, folder, container)
  const exit = await outcomeOf(context, folder, context.nameOf(jobId))
  if (exit?.reason === 'start') return undefined
  const { fence, confinement } = record
  return { jobId, fence, state: exit === undefined ? 'running' : 'ended', folder: folder.work, confinement }
}

/** A container whose folder is lost is still told, so that somebody removes it. */
function orphanHandle(jobId: string, folder: JobFolder, container: ContainerState): JobHandle {
  const state = container.status === 'created' || hasEnded(container) ? 'ended' : 'running'
  const fence = Number(container.labels[LABELS.fence]) || 0
  return { jobId, fence, state, folder: folder.work, confinement: 'a container without its folder' }
}

async function* logs(
  context: Context,
  jobId: string,
  offset: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  if (!isJobId(jobId)) return
  await context.starts.settled(jobId)
  const folder = await context.folderOf(jobId)
  const done = new AbortController()
  let end: JobExit | undefined
  followEnd(context, folder, context.nameOf(jobId), AbortSignal.any([signal, done.signal])).then(
    (exit) => (end = exit),
    () => undefined,
  )
  const ended = async () => end !== undefined || (await readExit(folder)) !== undefined
  try {
    yield* followLog(folder.log, offset, ended, signal, [folder.run])
  } finally {
    done.abort()
  }
}

async function exec(
  context: Context,
  jobId: string,
  command: string[],
  options: ExecOptions,
): Promise<JobExec> {
  await context.starts.settled(jobId)
  const name = context.nameOf(jobId)
  const isRunning = isJobId(jobId) && (await context.engine.inspect(name))?.isRunning === true
  if (!isRunning) throw new ExecError('no_job', 'No such job runs.')
  return context.engine.exec(name, command, options).catch((error: unknown) => {
    if (!(error instanceof EngineError)) throw error
    throw new ExecError('broken', error.message, { cause: error })
  })
}

async function stop(
  context: Context,
  jobId: string,
  graceSeconds: number,
  reason: StopReason,
): Promise<void> {
  if (!isJobId(jobId)) return
  await context.starts.settled(jobId)
  const { engine, log } = context
  const folder = await context.folderOf(jobId)
  const name = context.nameOf(jobId)
  if ((await outcomeOf(context, folder, name)) !== undefined) return
  await writeStop(folder, reason, graceSeconds)
  await engine.kill(name, 'SIGTERM')
  const patience = AbortSignal.timeout(graceSeconds * 1000 + STOP_SLACK_MILLISECONDS)
  await followEnd(context, folder, name, patience).catch(async () => {
    log.warn({ jobId }, 'a job did not stop in its grace; the agent kills it')
    await engine.kill(name, 'SIGKILL')
    await followEnd(context, folder, name, new AbortController().signal)
  })
}

/** Certain and repeatable: ends only when neither container nor folder of the job is left, nor what it left half done. */
async function removeJob(context: Context, jobId: string): Promise<void> {
  const { engine, services } = context
  await removeContainer(engine, context.nameOf(jobId))
  await services.leftBy(jobId)
  await removeJobFolder(await context.folderOf(jobId))
}

interface Context {
  options: DockerRuntimeOptions
  engine: Engine
  log: Logger
  now(): number
  starts: Starts
  prepared(): Promise<string>
  host(): Promise<Host>
  folderOf(jobId: string): Promise<JobFolder>
  nameOf(jobId: string): string
  services: DockerServices
}
