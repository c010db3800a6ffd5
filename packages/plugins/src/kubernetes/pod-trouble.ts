import { fields, list, number, said, type Fields } from './fields.ts'
import type { KubeObject } from './objects.ts'
import type { Trouble } from './readiness.ts'

export interface LogsOf {
  namespace: string
  pod: string
  container?: string
  /** Of the run before the present one. */
  previous: boolean
}

/** So often a container may crash while what it needs comes up. */
const FINAL_RESTARTS = 3

/** The reason out of the cluster why a pod is not ready; undefined where it tells none yet. */
export function podTrouble(pod: KubeObject, events: readonly KubeObject[]): Trouble | undefined {
  const status = fields(pod['status'])
  const own = events.filter((event) => fields(fields(event)['involvedObject'])['uid'] === pod.metadata.uid)
  const containers = [...list(status['initContainerStatuses']), ...list(status['containerStatuses'])]
  for (const container of containers) {
    const trouble = containerTrouble(pod, container, own)
    if (trouble) return trouble
  }
  if (status['phase'] === 'Failed') {
    const why = said(status['message'], status['reason'], 'its containers ended')
    return { ...about(pod, 'failed', `failed: ${why}`, 0), logsOf: { ...place(pod), previous: false } }
  }
  const scheduled = list(status['conditions']).find(({ type }) => type === 'PodScheduled')
  if (scheduled?.['status'] === 'False') {
    const why = `cannot be placed on a node: ${said(scheduled['message'], scheduled['reason'])}`
    // A cluster that grows by itself takes minutes for a new node.
    return about(pod, 'scheduling', why, Infinity)
  }
  const stuck = own.findLast((event) =>
    /^(FailedMount|FailedAttachVolume|FailedCreatePodSandBox)$/.test(text(event, 'reason')),
  )
  return stuck ? about(pod, 'start', `does not start: ${text(stuck, 'message')}`, Infinity) : undefined
}

function containerTrouble(pod: KubeObject, container: Fields, events: KubeObject[]): Trouble | undefined {
  const name = said(container['name'])
  const state = fields(container['state'])
  const waits = fields(state['waiting'])
  const reason = said(waits['reason'])
  const words = said(waits['message'])
  switch (reason) {
    case 'ErrImagePull':
    case 'ImagePullBackOff': {
      const failed = events.findLast(
        (event) => text(event, 'reason') === 'Failed' && /pull/i.test(text(event, 'message')),
      )
      const why = failed ? text(failed, 'message') : words
      return about(
        pod,
        'image',
        `cannot have the image ${said(container['image'])} (${reason}): ${why}`,
        10_000,
      )
    }
    case 'InvalidImageName':
    case 'ErrImageNeverPull':
      return about(pod, 'image', `cannot have the image ${said(container['image'])} (${reason}): ${words}`, 0)
    case 'CreateContainerConfigError':
    case 'CreateContainerError':
    case 'RunContainerError':
      return about(pod, 'container', `cannot start the container ${name} (${reason}): ${words}`, 15_000)
    case 'CrashLoopBackOff':
      return crash(pod, container, events, reason)
    default:
  }
  const restarts = number(container['restartCount'])
  if (restarts >= FINAL_RESTARTS && container['ready'] !== true)
    return crash(pod, container, events, 'restarts')
  // It ended just now, and the kubelet has not said yet when it starts it again.
  if (number(fields(state['terminated'])['exitCode']) !== 0 && restartsAlways(pod))
    return crash(pod, container, events, 'ended')
  return state['running'] !== undefined && container['ready'] === false
    ? notReady(pod, name, events)
    : undefined
}

function crash(pod: KubeObject, container: Fields, events: KubeObject[], reason: string): Trouble {
  const name = said(container['name'])
  const restarts = number(container['restartCount'])
  const isOver = fields(container['state'])['terminated'] !== undefined
  const last = fields(fields(container[isOver ? 'state' : 'lastState'])['terminated'])
  const ended = last['exitCode'] === undefined ? '' : ` with code ${said(last['exitCode'])}`
  const why = last['reason'] === undefined || last['reason'] === 'Error' ? '' : ` (${said(last['reason'])})`
  const probe = events.findLast((event) => /^(Liveness|Startup) probe failed/.test(text(event, 'message')))
  const probed = probe ? `; ${text(probe, 'message').trim()}` : ''
  const words = `crashes (${reason}): its container ${name} ended${ended}${why}, ${restarts} restarts${probed}`
  const patienceMs = restarts >= FINAL_RESTARTS ? 0 : Infinity
  return {
    ...about(pod, 'crash', words, patienceMs),
    logsOf: { ...place(pod), container: name, previous: !isOver },
  }
}

function restartsAlways(pod: KubeObject): boolean {
  return (fields(pod['spec'])['restartPolicy'] ?? 'Always') === 'Always'
}

function notReady(pod: KubeObject, container: string, events: KubeObject[]): Trouble | undefined {
  const probe = events.findLast((event) => text(event, 'reason') === 'Unhealthy')
  if (probe === undefined) return undefined
  return about(
    pod,
    'probe',
    `is not ready, its container ${container}: ${text(probe, 'message').trim()}`,
    Infinity,
  )
}

function about(pod: KubeObject, kind: string, words: string, patienceMs: number): Trouble {
  const { namespace, name } = pod.metadata
  return {
    kind: `${kind} of ${ownerOf(pod)}`,
    reason: `the pod ${namespace ?? 'default'}/${name} ${words}`,
    patienceMs,
  }
}

/** Pods come and go; what makes them stays. */
function ownerOf(pod: KubeObject): string {
  return pod.metadata.ownerReferences?.[0]?.uid ?? pod.metadata.name
}

function place(pod: KubeObject): { namespace: string; pod: string } {
  return { namespace: pod.metadata.namespace ?? 'default', pod: pod.metadata.name }
}

function text(event: KubeObject, key: 'reason' | 'message'): string {
  return said(event[key])
}
