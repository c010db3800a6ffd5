import type { Logger } from 'pino'
import { pause } from '../../ground/pause.ts'
import type { JobExit } from '../runtime.ts'
import { parseStatus } from '../wrapper.ts'
import { collectLog } from './collect-log.ts'
import type { LogCollector } from './collect-log.ts'
import { readExit, readRecord, readStop, writeExit, writeRecord, writeStop } from './job-folder.ts'
import type { JobFolder, JobRecord } from './job-folder.ts'
import { pullSecretName } from './job-manifest.ts'
import type { KubeApi, KubeEvent, Pod } from './kube-api.ts'
import { KILL } from './pod-scripts.ts'
import { CONTAINER } from './pod-spec.ts'
import { containerOf, endOfMissingPod, endOfPod, isSilent, startFailure } from './pod-state.ts'
import type { StartPatience } from './pod-state.ts'
import type { PodWatch } from './pod-watch.ts'

/** How often a job is looked at though nothing was heard: for its time limit, and while it comes up. */
const LOOK_MILLISECONDS = 5_000
const STARTING_MILLISECONDS = 1_000
/** Most jobs are up by then, and no events need be asked for. */
const QUICK_SECONDS = 1.5
/** How much longer than the wrapper the agent waits before it ends a job itself. */
const LATE_MILLISECONDS = 5_000
const LOST_LOG = 'The end of its log is lost: the pod was gone before the agent had read it.'

export interface FollowContext {
  api: KubeApi
  watch: PodWatch
  log: Logger
  now(): number
  scheduleSeconds: number
  startSeconds: number
}

/** One job from its start to its end, whoever asks: its log comes to the agent's disk meanwhile. */
export interface JobFollower {
  /** Undefined once the program runs; otherwise why it did not come up. */
  readonly up: Promise<JobExit | undefined>
  readonly ended: Promise<JobExit>
  /** After its end, when the cluster was told to be rid of it. */
  readonly cleared: Promise<void>
  /** The pod as it was last seen. */
  pod(): Pod | undefined
  close(): void
}

export function followJob(context: FollowContext, folder: JobFolder, name: string): JobFollower {
  const { watch, log } = context
  const closed = new AbortController()
  const view: View = {
    pods: undefined,
    last: undefined,
    collector: undefined,
    isNew: false,
    resume: undefined,
    clearing: undefined,
  }
  const seen = watch.follow(name, (pods) => {
    view.pods = pods
    wake(view)
  })
  let setUp: (failure: JobExit | undefined) => void = () => undefined
  const up = new Promise<JobExit | undefined>((resolve) => (setUp = resolve))
  const follower = { context, folder, name, view, signal: closed.signal, setUp }

  async function live(): Promise<JobExit> {
    for (;;) {
      closed.signal.throwIfAborted()
      view.isNew = false
      const known = await readExit(folder)
      const exit = known ?? (await look(follower))
      if (exit !== undefined) {
        setUp(exit)
        return exit
      }
      const isStarting = (await readRecord(folder))?.podUid === undefined
      await changed(view, isStarting ? STARTING_MILLISECONDS : LOOK_MILLISECONDS, closed.signal)
    }
  }

  /** A cluster that fails to answer says nothing about the job. */
  async function insist(): Promise<JobExit> {
    try {
      for (;;) {
        try {
          return await live()
        } catch (error) {
          if (closed.signal.aborted) throw error
          log.warn({ err: error, job: name }, 'the cluster does not tell about a job; it is asked again')
          await pause(STARTING_MILLISECONDS, closed.signal)
        }
      }
    } finally {
      view.collector?.close()
      seen.close()
    }
  }
  const ended = insist()
  ended.catch(() => undefined)
  const cleared = ended.then(
    () => view.clearing,
    () => view.clearing,
  )
  return { up, ended, cleared, pod: () => view.last, close: () => closed.abort() }
}

/** One look at the job: does what is due, and answers its end when it has come. */
async function look(follower: Follower): Promise<JobExit | undefined> {
  const { context, folder, view } = follower
  const record = await readRecord(folder)
  if (record === undefined) return { reason: 'gone', exitCode: null, message: 'There is no such job.' }
  if (view.pods === undefined) return undefined
  const pod = view.pods.find((found) => isOfJob(found, record))
  if (pod === undefined) return lookForPod(follower, record)
  view.last = pod
  if (pod.spec.nodeName !== undefined && view.collector === undefined) {
    view.collector = collectLog(context.api, folder.log, pod.metadata.name, context.log)
    view.collector.first.then(
      () => wake(view),
      () => undefined,
    )
  }
  if (containerOf(pod, CONTAINER.keeper)?.state.running !== undefined) view.collector?.isUp()
  const stopReason = await readStop(folder)
  const end = endOfPod(pod, stopReason)
  if (end !== undefined) return finish(follower, pod, end)
  if (record.podUid === undefined) return comeUp(follower, record, pod)
  await holdTimeLimit(follower, record, pod)
  return undefined
}

function isOfJob({ metadata }: Pod, { podUid, jobUid }: JobRecord): boolean {
  if (podUid !== undefined) return metadata.uid === podUid
  return jobUid === undefined || metadata.ownerReferences.some(({ uid }) => uid === jobUid)
}

/** Until the wrapper says that the program runs, or something that it will not. */
async function comeUp(follower: Follower, record: JobRecord, pod: Pod): Promise<JobExit | undefined> {
  const { context, folder, view, setUp } = follower
  // Its log may be read before the cluster tells that it runs; only then can it be stopped, removed and entered.
  const isSeen = containerOf(pod, CONTAINER.keeper)?.state.running !== undefined
  const word = isSeen ? await Promise.race([view.collector?.first, Promise.resolve(undefined)]) : undefined
  if (word === 'ready') {
    await writeRecord(folder, { ...record, podUid: pod.metadata.uid, startedAt: context.now() })
    await forgetSecrets(follower)
    setUp(undefined)
    return undefined
  }
  if (word?.startsWith('refused ')) {
    return orFailed(follower, { reason: 'start', exitCode: null, message: word.slice('refused '.length) })
  }
  const events = await eventsOf(context, record, 'Pod', pod.metadata.name)
  return orFailed(follower, startFailure(pod, events, patienceOf(context, record)))
}

async function lookForPod(follower: Follower, record: JobRecord): Promise<JobExit | undefined> {
  const { context, folder, name, view } = follower
  const patience = patienceOf(context, record)
  if (record.podUid === undefined && patience.seconds < QUICK_SECONDS) return undefined
  const job = await context.api.getJob(name)
  if (record.podUid !== undefined || job === undefined) {
    const exit = endOfMissingPod(view.last, job !== undefined, await readStop(folder))
    const isWhole = view.collector?.isWhole() ?? false
    await writeExit(folder, isWhole ? exit : { ...exit, message: `${exit.message} ${LOST_LOG}` })
    await release(context, name)
    return readExit(folder)
  }
  const events = await eventsOf(context, record, 'Job', name)
  return orFailed(follower, startFailure(undefined, events, patience))
}

/** A start that failed is an end like others: it is kept, and the cluster is rid of it. */
async function orFailed(
  { context, folder, name }: Follower,
  failure: JobExit | undefined,
): Promise<JobExit | undefined> {
  if (failure === undefined) return undefined
  await writeExit(folder, failure)
  await release(context, name)
  return failure
}

function patienceOf({ now, scheduleSeconds, startSeconds }: FollowContext, record: JobRecord): StartPatience {
  return { seconds: (now() - record.startedAt) / 1000, scheduleSeconds, startSeconds }
}

async function eventsOf(
  { api, now }: FollowContext,
  record: JobRecord,
  kind: 'Job' | 'Pod',
  name: string,
): Promise<KubeEvent[]> {
  const isQuick = now() - record.startedAt < QUICK_SECONDS * 1000
  return isQuick ? [] : api.events(kind, name)
}

async function finish({ context, folder, name, view }: Follower, pod: Pod, end: JobExit): Promise<JobExit> {
  const message = containerOf(pod, CONTAINER.job)?.state.terminated?.message ?? ''
  const spoke = parseStatus(message).isReady
  view.collector ??= collectLog(context.api, folder.log, pod.metadata.name, context.log)
  view.collector.isUp()
  const isWhole = await view.collector.finish(spoke, () => isGone(view, pod))
  await writeExit(folder, isWhole ? end : { ...end, message: `${end.message} ${LOST_LOG}` })
  // Nobody has to wait for it but the removal: a delete that comes late would take a job of the same name.
  view.clearing = release(context, name).catch((error: unknown) =>
    context.log.warn({ err: error, job: name }, 'the pod of an ended job stays until the job is removed'),
  )
  return (await readExit(folder)) ?? end
}

function isGone(view: View, pod: Pod): boolean {
  const now = view.pods?.find(({ metadata }) => metadata.uid === pod.metadata.uid)
  return now === undefined || isSilent(now)
}

/** The log is on the agent's disk: the pod is not needed any more, and what it held is free. */
export async function release(context: Pick<FollowContext, 'api'>, name: string): Promise<void> {
  await Promise.all([
    context.api.deleteJob(name),
    context.api.deleteSecret(name),
    context.api.deleteSecret(pullSecretName(name)),
  ])
}

/** A pod that the cluster makes a second time finds no files, so it cannot start: no job runs twice. */
async function forgetSecrets({ context, name }: Follower): Promise<void> {
  const { api, log } = context
  await Promise.all([api.deleteSecret(name), api.deleteSecret(pullSecretName(name))]).catch(
    (error: unknown) => log.warn({ err: error, job: name }, 'the secret of a job stays until the job ends'),
  )
}

/** A job that kills the wrapper's clock ends all the same while an agent is there. */
async function holdTimeLimit(follower: Follower, record: JobRecord, pod: Pod): Promise<void> {
  const { context, folder, name, signal } = follower
  const { startedAt, timeoutSeconds, graceSeconds } = record
  const late = context.now() - startedAt - (timeoutSeconds + graceSeconds) * 1000
  if (late <= LATE_MILLISECONDS) return
  context.log.warn({ jobId: record.jobId }, 'a job did not end at its time limit; the agent kills it')
  await writeStop(folder, 'timeout')
  if (late > 6 * LATE_MILLISECONDS) return context.api.deleteJob(name)
  await killInside(context.api, pod, signal)
}

export async function killInside(api: KubeApi, pod: Pod, signal: AbortSignal): Promise<void> {
  const command = ['/bin/sh', '-c', KILL]
  const target = { pod: pod.metadata.name, container: CONTAINER.job, command, signal }
  await api.exec(target).then(
    (exec) => exec.exitCode.catch(() => 0),
    () => undefined,
  )
}

function wake(view: View): void {
  view.isNew = true
  view.resume?.()
}

/** Until something is new since the last look, or the time is over. */
function changed(view: View, milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', finish)
      view.resume = undefined
      resolve()
    }
    const timer = setTimeout(finish, milliseconds)
    signal.addEventListener('abort', finish)
    view.resume = finish
    if (signal.aborted || view.isNew) finish()
  })
}

interface View {
  /** Undefined until the cluster was asked once. */
  pods: Pod[] | undefined
  last: Pod | undefined
  collector: LogCollector | undefined
  isNew: boolean
  resume: (() => void) | undefined
  clearing: Promise<void> | undefined
}

interface Follower {
  context: FollowContext
  folder: JobFolder
  name: string
  view: View
  signal: AbortSignal
  setUp(failure: JobExit | undefined): void
}
