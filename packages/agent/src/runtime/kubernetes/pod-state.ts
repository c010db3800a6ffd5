import { exitReason } from '../process/exit-reason.ts'
import type { JobExit } from '../runtime.ts'
import { parseStatus } from '../wrapper.ts'
import type { KubeEvent, Pod } from './kube-api.ts'
import { CONTAINER } from './pod-spec.ts'

const IMAGE_REASONS = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'ImageInspectError',
  'RegistryUnavailable',
])
const CREATE_REASONS = new Set(['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError'])
const NEVER_RAN = new Set(['StartError', 'ContainerCannotRun'])
const LOST_NODE = new Set(['DeletionByTaintManager', 'DeletionByPodGC'])
/** Words of the cluster that explain a pod that does not come up, and how often and long each may come before it counts. */
const START_EVENTS: Record<string, { seconds: number; count: number }> = {
  FailedCreate: { seconds: 0, count: 1 },
  FailedMount: { seconds: 10, count: 4 },
  FailedAttachVolume: { seconds: 60, count: 4 },
  FailedCreatePodSandBox: { seconds: 20, count: 4 },
}

type Container = Pod['status']['containerStatuses'][number]

export function containerOf(pod: Pod, name: string): Container | undefined {
  return pod.status.containerStatuses.find((container) => container.name === name)
}

export interface StartPatience {
  /** Since when the job has been starting. */
  seconds: number
  /** How long a pod may wait for a place. Where nodes are made on demand, as long as that takes. */
  scheduleSeconds: number
  /** How long everything together may take, the pull of the image included. */
  startSeconds: number
}

/** Pure: why this job will not come up, or undefined while it still may. `pod` is undefined before there is one. */
export function startFailure(
  pod: Pod | undefined,
  events: readonly KubeEvent[],
  patience: StartPatience,
): JobExit | undefined {
  for (const container of pod?.status.containerStatuses ?? []) {
    const { waiting } = container.state
    const words = `${waiting?.reason}: ${waiting?.message ?? ''}`
    if (IMAGE_REASONS.has(waiting?.reason ?? '')) return failed('image', `The image cannot be had: ${words}`)
    if (CREATE_REASONS.has(waiting?.reason ?? '')) return failed('start', words)
  }
  const scheduled = pod?.status.conditions.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.reason === 'Unschedulable' && patience.seconds > patience.scheduleSeconds) {
    return failed('start', `No node takes the job: ${scheduled.message ?? 'it is unschedulable'}`)
  }
  // What stood in the way of a pod that runs is in its way no more.
  const isUp = pod?.status.containerStatuses.some(({ state }) => state.running !== undefined) ?? false
  const told = isUp ? undefined : events.findLast((event) => isFatal(event, patience))
  if (told !== undefined) return failed('start', `${told.reason}: ${told.message ?? ''}`)
  if (patience.seconds <= patience.startSeconds) return undefined
  const last = events.at(-1)
  const doing = last === undefined ? 'nothing was heard of it' : `${last.reason}: ${last.message ?? ''}`
  return failed('start', `The job did not come up within ${patience.startSeconds} seconds: ${doing}`)
}

function isFatal({ reason, count = 1 }: KubeEvent, { seconds }: StartPatience): boolean {
  const rule = START_EVENTS[reason ?? '']
  return rule !== undefined && seconds > rule.seconds && count >= rule.count
}

/** Pure: how the job of this pod ended, or undefined while it runs or is not up yet. */
export function endOfPod(pod: Pod, stopReason: 'canceled' | 'timeout' | undefined): JobExit | undefined {
  const { status, metadata, spec } = pod
  const given = givenUp(pod)
  if (given !== undefined && stopReason === undefined) return given
  const ended = containerOf(pod, CONTAINER.job)?.state.terminated
  if (ended === undefined) {
    if (status.phase !== 'Failed' && status.phase !== 'Succeeded') return undefined
    if (stopReason !== undefined || metadata.deletionTimestamp !== undefined) {
      return endOfMissingPod(pod, true, stopReason)
    }
    const why = [status.reason, status.message].filter(Boolean).join(': ') || 'the cluster does not say why'
    return { reason: 'gone', exitCode: null, message: `The pod of the job ended: ${why}.` }
  }
  if (NEVER_RAN.has(ended.reason ?? '')) return failed('start', `${ended.reason}: ${ended.message ?? ''}`)
  const said = parseStatus(ended.message ?? '')
  if (said.refused !== undefined) return failed('start', said.refused)
  const wasTold = said.ended?.cause ?? 'stopped'
  const cause = wasTold === 'stopped' && stopReason === undefined ? 'none' : wasTold
  // Somebody else's delete reaches the wrapper as a stop without a reason of ours.
  if (metadata.deletionTimestamp !== undefined && cause === 'none' && wasTold === 'stopped') {
    const message = `The pod of the job was deleted on ${spec.nodeName ?? 'its node'}: a drain, a preemption or a person.`
    return { reason: 'evicted', exitCode: ended.exitCode, message }
  }
  const oomKills = Math.max(said.ended?.oomKills ?? 0, ended.reason === 'OOMKilled' ? 1 : 0)
  return exitReason({ code: ended.exitCode, cause, oomKills, overMemory: false, stopReason })
}

/** Pure: how a job ended whose pod is not there any more. Where its Job still stands, only the pod was taken away. */
export function endOfMissingPod(
  last: Pod | undefined,
  hasJob: boolean,
  stopReason: 'canceled' | 'timeout' | undefined,
): JobExit {
  if (stopReason !== undefined) return exitReason({ ...NOBODY_SAW, stopReason })
  const given = last && givenUp(last)
  if (given !== undefined) return given
  if (hasJob || last?.metadata.deletionTimestamp !== undefined) {
    const message = `The pod of the job was deleted on ${last?.spec.nodeName ?? 'its node'}, and nothing tells how far it came.`
    return { reason: 'evicted', exitCode: null, message }
  }
  return exitReason(NOBODY_SAW)
}

/** Pure: whether nobody can read the log of this pod any more. */
export function isSilent(pod: Pod): boolean {
  if (pod.status.phase === 'Failed' || pod.status.phase === 'Succeeded') return true
  return containerOf(pod, CONTAINER.keeper)?.state.terminated !== undefined
}

/** Pure: whether nothing of this pod runs any more and the kubelet is only clearing it away. */
export function isCleared({ metadata, status }: Pod): boolean {
  if (metadata.deletionTimestamp === undefined) return false
  return !status.containerStatuses.some(({ state }) => state.running !== undefined)
}

function givenUp({ status, spec }: Pod): JobExit | undefined {
  const node = spec.nodeName ?? 'its node'
  const disruption = status.conditions.find(
    (condition) => condition.type === 'DisruptionTarget' && condition.status === 'True',
  )
  if (status.reason === 'NodeLost' || LOST_NODE.has(disruption?.reason ?? '')) {
    const message = `The node ${node} does not answer; the cluster gave the job up.`
    return { reason: 'node-lost', exitCode: null, message }
  }
  if (status.reason !== 'Evicted' && disruption === undefined) return undefined
  const why = status.message ?? disruption?.message ?? 'it does not say why'
  return { reason: 'evicted', exitCode: null, message: `The cluster evicted the job from ${node}: ${why}` }
}

function failed(reason: 'start' | 'image', message: string): JobExit {
  return { reason, exitCode: null, message: message.trim() }
}

const NOBODY_SAW = {
  code: null,
  cause: 'none',
  oomKills: 0,
  overMemory: false,
  stopReason: undefined,
} as const
