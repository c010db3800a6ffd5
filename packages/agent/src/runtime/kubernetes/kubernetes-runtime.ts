import { existsSync } from 'node:fs'
import { mkdir, realpath } from 'node:fs/promises'
import type { Logger } from 'pino'
import { pause } from '../../ground/pause.ts'
import { followLog } from '../follow-log.ts'
import { isJobId, jobIds } from '../process/job-folder.ts'
import { RuntimeError } from '../runtime.ts'
import type { JobExit, JobHandle, JobSpec, Runtime } from '../runtime.ts'
import { createStarts } from '../starts.ts'
import type { Starts } from '../starts.ts'
import { execInJob } from './exec-in-job.ts'
import { followJob, killInside, release } from './follow-job.ts'
import type { FollowContext, JobFollower } from './follow-job.ts'
import { jobFolder, readExit, readRecord, removeJobFolder, writeStop } from './job-folder.ts'
import type { JobFolder, StopReason } from './job-folder.ts'
import { ANNOTATIONS, jobName, LABELS } from './job-manifest.ts'
import { createKubeApi } from './kube-api.ts'
import type { KubeApi, KubeSettings } from './kube-api.ts'
import { isKube } from './kube-error.ts'
import { STOP } from './pod-scripts.ts'
import { CONTAINER, folderOf } from './pod-spec.ts'
import { isCleared } from './pod-state.ts'
import { createPodWatch } from './pod-watch.ts'
import { createPod } from './start-pod.ts'
import type { PodSettings } from './start-pod.ts'

/** How much longer than the wrapper the agent waits before it ends a job itself. */
const STOP_SLACK_MILLISECONDS = 4_000
const KILL_MILLISECONDS = 15_000
const REMOVE_MILLISECONDS = 90_000

export interface KubernetesRuntimeOptions extends KubeSettings, PodSettings {
  /** Holds one folder per job, with what was read of its log. */
  dir: string
  log: Logger
  /** How long a pod may wait for a place on a node. */
  scheduleSeconds?: number | undefined
  /** How long a job may take to come up, the pull of its image included. */
  startSeconds?: number | undefined
  now?: () => number
}

/** Jobs as Jobs of a Kubernetes cluster, in a namespace of their own. They need no agent to run on and to end well. */
export function createKubernetesRuntime(options: KubernetesRuntimeOptions): Runtime {
  const context = createContext(options)
  const { starts } = context
  return {
    name: 'kubernetes',
    traits: { starts: 'image', reach: 'tls' },
    describe: () => describe(context),
    start: (spec) => starts.run(spec.jobId, () => start(context, spec)),
    async attach(jobId) {
      await starts.settled(jobId)
      return isJobId(jobId) ? find(context, jobId) : undefined
    },
    logs: (jobId, offset, signal) => logs(context, jobId, offset, signal),
    wait: (jobId, signal) => wait(context, jobId, signal),
    exec: (jobId, command, execOptions) =>
      execInJob(context.api, isJobId(jobId) ? context.nameOf(jobId) : undefined, command, execOptions),
    stop: (jobId, graceSeconds, reason) => stop(context, jobId, graceSeconds, reason),
    async remove(jobId) {
      await starts.settled(jobId)
      if (isJobId(jobId)) await removeJob(context, jobId)
    },
    async list() {
      const jobs = await context.api.listJobs(`${LABELS.agent}=${options.agentKey}`)
      const labelled = jobs.map(({ metadata }) => metadata.annotations[ANNOTATIONS.job] ?? '').filter(isJobId)
      const known = await jobIds(await context.prepared())
      const ids = [...new Set([...known, ...labelled])].filter((jobId) => !starts.has(jobId))
      const found = await Promise.all(ids.map((jobId) => find(context, jobId)))
      return found.filter((handle) => handle !== undefined)
    },
  }
}

function createContext(options: KubernetesRuntimeOptions): Context {
  const { agentKey, log, dir, now = Date.now, scheduleSeconds = 15, startSeconds = 900 } = options
  const api = createKubeApi(options)
  const watch = createPodWatch(api, `${LABELS.agent}=${agentKey}`, log)
  const following = { api, watch, log, now, scheduleSeconds, startSeconds }
  const followers = new Map<string, JobFollower>()
  const prepared = async () => {
    await mkdir(dir, { recursive: true, mode: 0o700 })
    return realpath(dir)
  }
  const folderFor = async (jobId: string) => jobFolder(await prepared(), jobId)
  const nameOf = (jobId: string) => jobName(agentKey, jobId)
  return {
    ...following,
    options,
    starts: createStarts(),
    followers,
    prepared,
    folderFor,
    nameOf,
    async follow(jobId) {
      const folder = await folderFor(jobId)
      const known = followers.get(jobId)
      if (known !== undefined) return known
      const follower = followJob(following, folder, nameOf(jobId))
      followers.set(jobId, follower)
      const forget = () => void (followers.get(jobId) === follower && followers.delete(jobId))
      void follower.cleared.then(forget)
      return follower
    },
  }
}

/** Neither is to be seen from the namespace that the agent may look into. */
const OPEN = [
  'Declared names narrow nothing on Kubernetes yet: jobs with egress reach whatever a pod reaches.',
  'What internal and cluster jobs may reach holds where the NetworkPolicies of the chart are, and the network of the cluster enforces them.',
]

async function describe({ api, options }: Context) {
  const walls = 'not root, read-only root, no capabilities, no privilege escalation, seccomp'
  try {
    const version = await api.version()
    await api.listJobs(`${LABELS.agent}=${options.agentKey}`)
    const name = await api.whoAmI()
    const who = name === undefined ? '' : ` as ${name}`
    const confinement = `a pod each by Kubernetes ${version} in ${options.namespace}, made${who}; ${walls}; memory, cpu, disk limited by the kubelet, processes by user`
    return { confinement, warnings: OPEN }
  } catch (error) {
    if (!isKube(error)) throw error
    const remedy =
      'No job can start until the cluster answers and lets the agent make Jobs; charts/agent does that.'
    return {
      confinement: 'none: the cluster is away',
      warnings: [error.message.replace(/\.?$/, '.'), remedy],
    }
  }
}

async function start(context: Context, spec: JobSpec): Promise<JobHandle> {
  const { jobId, fence } = spec
  const folder = await context.folderFor(jobId)
  try {
    if (isJobId(jobId)) {
      const earlier = await find(context, jobId)
      if (earlier !== undefined) return earlier
      // Only a start that was cut short leaves a folder without a job in it.
      if (existsSync(folder.root)) await removeJob(context, jobId)
    }
    const record = await createPod(context, folder, context.nameOf(jobId), spec)
    const follower = await context.follow(jobId)
    const end = await follower.up
    if (end?.reason === 'start' || end?.reason === 'image') throw new RuntimeError(end.reason, end.message)
    return { jobId, fence, state: 'running', folder: folderOf(jobId), confinement: record.confinement }
  } catch (error) {
    if (isJobId(jobId)) {
      await removeJob(context, jobId).catch((err: unknown) =>
        context.log.error({ err, jobId }, 'a failed start left something behind'),
      )
    }
    if (error instanceof RuntimeError && error.reason === 'image') throw error
    const message = `Job ${jobId} could not be started: ${(error as Error).message}`
    throw new RuntimeError('start', message, { cause: error })
  }
}

/** What ran or runs; undefined for a job that is unknown or whose start was cut short. */
async function find(context: Context, jobId: string): Promise<JobHandle | undefined> {
  const folder = await context.folderFor(jobId)
  const record = await readRecord(folder)
  const exit = await readExit(folder)
  const job = exit === undefined ? await context.api.getJob(context.nameOf(jobId)) : undefined
  if (record === undefined) {
    // A Job whose folder is lost is still told, so that somebody removes it.
    const fence = Number(job?.metadata.annotations[ANNOTATIONS.fence]) || 0
    const confinement = 'a pod whose record is lost'
    return job && { jobId, fence, state: 'running', folder: folderOf(jobId), confinement }
  }
  if (exit?.reason === 'start' || exit?.reason === 'image') return undefined
  if (exit === undefined && job === undefined && record.podUid === undefined) return undefined
  const { fence, confinement } = record
  const state = exit === undefined ? 'running' : 'ended'
  return { jobId, fence, state, folder: folderOf(jobId), confinement }
}

async function* logs(
  context: Context,
  jobId: string,
  offset: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  if (!isJobId(jobId)) return
  await context.starts.settled(jobId)
  const folder = await context.folderFor(jobId)
  if ((await readRecord(folder)) === undefined) return
  if ((await readExit(folder)) === undefined) await context.follow(jobId)
  const ended = async () => (await readExit(folder)) !== undefined || (await readRecord(folder)) === undefined
  yield* followLog(folder.log, offset, ended, signal, [folder.root])
}

async function wait(context: Context, jobId: string, signal: AbortSignal): Promise<JobExit> {
  const unknown: JobExit = { reason: 'gone', exitCode: null, message: 'There is no such job.' }
  if (!isJobId(jobId)) return unknown
  await context.starts.settled(jobId)
  const folder = await context.folderFor(jobId)
  for (;;) {
    signal.throwIfAborted()
    const exit = await readExit(folder)
    if (exit !== undefined) return exit
    if ((await readRecord(folder)) === undefined) return unknown
    const follower = await context.follow(jobId)
    const aborted = new AbortController()
    const stop = () => aborted.abort()
    signal.addEventListener('abort', stop)
    await Promise.race([follower.ended.catch(() => undefined), untilAborted(aborted.signal)])
    signal.removeEventListener('abort', stop)
  }
}

async function stop(
  context: Context,
  jobId: string,
  graceSeconds: number,
  reason: StopReason,
): Promise<void> {
  if (!isJobId(jobId)) return
  await context.starts.settled(jobId)
  const folder = await context.folderFor(jobId)
  if ((await readExit(folder)) !== undefined || (await readRecord(folder)) === undefined) return
  await writeStop(folder, reason)
  const patience = AbortSignal.timeout(graceSeconds * 1000 + STOP_SLACK_MILLISECONDS)
  const command = ['/bin/sh', '-c', STOP, 'tenon-stop', reason, String(graceSeconds)]
  await everyPod(context, jobId, (pod) =>
    context.api
      .exec({ pod, container: CONTAINER.job, command, signal: patience })
      .then((exec) => exec.exitCode),
  )
  await wait(context, jobId, patience).catch(async () => {
    context.log.warn({ jobId }, 'a job did not stop in its grace; the agent kills it')
    const { pods } = await context.api.listPods(`job-name=${context.nameOf(jobId)}`)
    const last = AbortSignal.timeout(KILL_MILLISECONDS)
    await Promise.all(pods.map((pod) => killInside(context.api, pod, last)))
    await wait(context, jobId, last).catch(() => context.api.deleteJob(context.nameOf(jobId)))
    await wait(context, jobId, new AbortController().signal)
  })
}

async function everyPod(
  context: Context,
  jobId: string,
  act: (pod: string) => Promise<unknown>,
): Promise<void> {
  const { pods } = await context.api.listPods(`job-name=${context.nameOf(jobId)}`)
  await Promise.all(
    pods.map(({ metadata }) =>
      act(metadata.name).catch((error: unknown) => {
        // A container that has ended takes no command; the wait that follows tells.
        context.log.debug({ err: error, jobId }, 'a pod could not be told to stop')
      }),
    ),
  )
}

/** Certain and repeatable: ends only when no Job, secret or folder is left and nothing of a pod runs. */
async function removeJob(context: Context, jobId: string): Promise<void> {
  const { api, followers } = context
  const name = context.nameOf(jobId)
  const never = new AbortController().signal
  const deadline = Date.now() + REMOVE_MILLISECONDS
  if ((await readExit(await context.folderFor(jobId))) !== undefined) await followers.get(jobId)?.cleared
  for (let round = 0; ; round++) {
    const [job, { pods }] = await Promise.all([api.getJob(name), api.listPods(`job-name=${name}`)])
    if (round === 0) {
      const running = pods.filter((pod) => pod.status.phase === 'Running' && !isCleared(pod))
      await Promise.all(running.map((pod) => killInside(api, pod, AbortSignal.timeout(KILL_MILLISECONDS))))
    }
    if (round === 0 || job !== undefined) await release(context, name)
    else if (pods.every(isCleared)) break
    if (Date.now() > deadline) throw new Error(`The pod of ${name} does not go; remove the job again later.`)
    if (round > 0) await pause(Math.min(100 * round, 500), never)
  }
  followers.get(jobId)?.close()
  await removeJobFolder(await context.folderFor(jobId))
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

interface Context extends FollowContext {
  options: KubernetesRuntimeOptions
  api: KubeApi
  starts: Starts
  followers: Map<string, JobFollower>
  prepared(): Promise<string>
  folderFor(jobId: string): Promise<JobFolder>
  nameOf(jobId: string): string
  follow(jobId: string): Promise<JobFollower>
}
