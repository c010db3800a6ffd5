import { fields, number, said, type Fields } from './fields.ts'
import { addressOf, type KubeObject } from './objects.ts'
import { podTrouble, type LogsOf } from './pod-trouble.ts'

/** What keeps an object from being ready. */
export interface Trouble {
  /** The same trouble has the same kind from one look to the next, though its words may change. */
  kind: string
  reason: string
  /** How long it may last before waiting on is useless; Infinity where only time tells. */
  patienceMs: number
  logsOf?: LogsOf
}

export interface Seen {
  /** As the cluster has them now. */
  objects: readonly KubeObject[]
  pods: readonly KubeObject[]
  replicaSets: readonly KubeObject[]
  events: readonly KubeObject[]
}

export const WATCHED: readonly string[] = [
  'Deployment',
  'StatefulSet',
  'DaemonSet',
  'Job',
  'Pod',
  'CustomResourceDefinition',
]

/** Undefined when the object is ready; kinds that have no readiness are. */
export function troubleOf(object: KubeObject, seen: Seen): Trouble | undefined {
  if (object.metadata.deletionTimestamp !== undefined) return waiting(object, 'is being deleted')
  switch (object.kind) {
    case 'Deployment':
      return rolloutTrouble(object, seen, deploymentLack(object))
    case 'StatefulSet':
      return rolloutTrouble(object, seen, statefulSetLack(object))
    case 'DaemonSet':
      return rolloutTrouble(object, seen, daemonSetLack(object))
    case 'Job':
      return jobTrouble(object, seen)
    case 'Pod':
      return isReadyPod(object)
        ? undefined
        : (podTrouble(object, seen.events) ?? waiting(object, 'is not ready'))
    case 'CustomResourceDefinition':
      return conditionOf(object, 'Established')?.['status'] === 'True'
        ? undefined
        : waiting(object, 'is not established')
    default:
      return undefined
  }
}

function rolloutTrouble(object: KubeObject, seen: Seen, lack: string | undefined): Trouble | undefined {
  if (lack === undefined) return undefined
  const troubles = podsOf(object, seen).flatMap((pod) => podTrouble(pod, seen.events) ?? [])
  const worst = troubles.toSorted((a, b) => a.patienceMs - b.patienceMs)[0]
  if (worst && worst.patienceMs < Infinity) return worst
  const refusal = creationRefused(object, seen)
  if (refusal) return refusal
  const progress = conditionOf(object, 'Progressing')
  const isOver = progress?.['status'] === 'False' && progress['reason'] === 'ProgressDeadlineExceeded'
  if (worst) return isOver ? { ...worst, patienceMs: 0 } : worst
  return { ...waiting(object, lack), ...(isOver ? { patienceMs: 0 } : {}) }
}

/** Quotas, admission and the like: pods that the cluster did not even let in. */
function creationRefused(object: KubeObject, seen: Seen): Trouble | undefined {
  const failure = conditionOf(object, 'ReplicaFailure')
  const told = failure?.['status'] === 'True' ? said(failure['message']) : undefined
  const event = seen.events.findLast((each) => {
    const { reason, involvedObject } = each as Fields
    return (
      reason === 'FailedCreate' && (involvedObject as Fields | undefined)?.['uid'] === object.metadata.uid
    )
  })
  const message = told ?? (event as Fields | undefined)?.['message']
  if (message === undefined || typeof message !== 'string') return undefined
  return {
    kind: `${addressOf(object)} create`,
    reason: `the cluster lets no pod of ${addressOf(object)} in: ${message}`,
    patienceMs: 15_000,
  }
}

function deploymentLack(object: KubeObject): string | undefined {
  const spec = fields(object['spec'])
  const status = fields(object['status'])
  const wanted = number(spec['replicas'], 1)
  if (isBehind(object)) return 'was not looked at by its controller yet'
  if (number(status['updatedReplicas']) < wanted)
    return `has ${number(status['updatedReplicas'])} of ${wanted} new pods`
  if (number(status['replicas']) > number(status['updatedReplicas']))
    return 'still has pods of the version before'
  if (number(status['availableReplicas']) < wanted) {
    return `has ${number(status['availableReplicas'])} of ${wanted} pods ready`
  }
  return undefined
}

function statefulSetLack(object: KubeObject): string | undefined {
  const status = fields(object['status'])
  const wanted = number(fields(object['spec'])['replicas'], 1)
  if (isBehind(object)) return 'was not looked at by its controller yet'
  const isRolling = fields(fields(object['spec'])['updateStrategy'])['type'] !== 'OnDelete'
  if (isRolling && wanted > 0 && status['updateRevision'] !== status['currentRevision']) {
    return `has ${number(status['updatedReplicas'])} of ${wanted} new pods`
  }
  const ready = number(status['readyReplicas'])
  return ready < wanted ? `has ${ready} of ${wanted} pods ready` : undefined
}

function daemonSetLack(object: KubeObject): string | undefined {
  const status = fields(object['status'])
  const wanted = number(status['desiredNumberScheduled'])
  if (isBehind(object)) return 'was not looked at by its controller yet'
  if (number(status['updatedNumberScheduled']) < wanted) return 'has pods of the version before'
  const ready = number(status['numberAvailable'])
  return ready < wanted ? `has ${ready} of ${wanted} pods ready` : undefined
}

/** A job may take its time; only one that failed is trouble. */
function jobTrouble(object: KubeObject, seen: Seen): Trouble | undefined {
  const failed = conditionOf(object, 'Failed')
  if (failed?.['status'] !== 'True') return undefined
  const [pod] = podsOf(object, seen).filter((each) => !isReadyPod(each))
  const logs = pod === undefined ? {} : { logsOf: { ...place(pod), previous: false } }
  const reason = `${addressOf(object)} failed: ${said(failed['message'], failed['reason'])}`
  return { kind: `${addressOf(object)} failed`, reason, patienceMs: 0, ...logs }
}

/** The pods of the newest version: what is wrong with older ones is no reason against this one. */
function podsOf(object: KubeObject, seen: Seen): KubeObject[] {
  const owns = (owner: KubeObject) => (each: KubeObject) =>
    each.metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid) ?? false
  if (object.kind === 'Deployment') {
    const revision = (set: KubeObject) =>
      Number(set.metadata.annotations?.['deployment.kubernetes.io/revision'] ?? 0)
    const [newest] = seen.replicaSets.filter(owns(object)).toSorted((a, b) => revision(b) - revision(a))
    return newest === undefined ? [] : seen.pods.filter(owns(newest))
  }
  const own = seen.pods.filter(owns(object))
  const update = fields(object['status'])['updateRevision']
  const fresh = own.filter((pod) => pod.metadata.labels?.['controller-revision-hash'] === update)
  return fresh.length > 0 ? fresh : own
}

function isReadyPod(pod: KubeObject): boolean {
  return fields(pod['status'])['phase'] === 'Succeeded' || conditionOf(pod, 'Ready')?.['status'] === 'True'
}

function isBehind(object: KubeObject): boolean {
  return number(fields(object['status'])['observedGeneration']) < (object.metadata.generation ?? 0)
}

function waiting(object: KubeObject, what: string): Trouble {
  return {
    kind: `${addressOf(object)} waiting`,
    reason: `${addressOf(object)} ${what}`,
    patienceMs: Infinity,
  }
}

function conditionOf(object: KubeObject, type: string): Fields | undefined {
  const { conditions } = fields(object['status'])
  if (!Array.isArray(conditions)) return undefined
  return (conditions as Fields[]).find((condition) => condition['type'] === type)
}

function place(pod: KubeObject): { namespace: string; pod: string } {
  return { namespace: pod.metadata.namespace ?? 'default', pod: pod.metadata.name }
}
