import type { Cluster } from './cluster.ts'
import { fields, list, number, said } from './fields.ts'
import type { KubeObject } from './objects.ts'
import { presentOf } from './watch.ts'

/** A container that runs, ran or is to run. */
export interface PodContainer {
  namespace: string
  pod: string
  container: string
  /** Another for each run of the container, so that a restart shows. */
  life: string
  isRunning: boolean
}

/** What can have pods; other kinds may own one of these. */
const WORKLOADS: readonly string[] = [
  'Deployment',
  'StatefulSet',
  'DaemonSet',
  'ReplicaSet',
  'Job',
  'CronJob',
  'Pod',
]
const BETWEEN = 'replicasets.apps,jobs.batch,pods'

/** The pods that belong to a component's objects, by ownership, in whatever namespace they are. */
export async function podsOfObjects(
  cluster: Cluster,
  objects: readonly KubeObject[],
  namespace: string,
): Promise<KubeObject[]> {
  const workloads = objects.filter(({ kind }) => WORKLOADS.includes(kind))
  if (workloads.length === 0) return []
  const present = await presentOf(cluster, workloads, namespace)
  const around: KubeObject[] = []
  for (const place of new Set(present.map(({ metadata }) => metadata.namespace ?? namespace)))
    around.push(...(await cluster.get([BETWEEN, '-n', place])))
  return ownedPods(present, around)
}

/** Pure: pods among `around` that one of `roots` owns, directly or through others. */
export function ownedPods(roots: readonly KubeObject[], around: readonly KubeObject[]): KubeObject[] {
  const owned = new Set(roots.flatMap(({ metadata }) => metadata.uid ?? []))
  const isOwned = ({ metadata }: KubeObject) =>
    (metadata.uid !== undefined && owned.has(metadata.uid)) ||
    (metadata.ownerReferences?.some(({ uid }) => owned.has(uid)) ?? false)
  for (let size = -1; size !== owned.size;) {
    size = owned.size
    for (const object of around) if (isOwned(object) && object.metadata.uid) owned.add(object.metadata.uid)
  }
  const pods = around.filter((object) => object.kind === 'Pod' && isOwned(object))
  return pods.toSorted((a, b) => a.metadata.name.localeCompare(b.metadata.name))
}

/** Pure: init containers first, as they run. */
export function containersOf(pod: KubeObject): PodContainer[] {
  const spec = fields(pod['spec'])
  const status = fields(pod['status'])
  const states = [...list(status['initContainerStatuses']), ...list(status['containerStatuses'])]
  return [...list(spec['initContainers']), ...list(spec['containers'])].map((each) => {
    const container = said(each['name'])
    const state = states.find(({ name }) => name === container)
    return {
      namespace: pod.metadata.namespace ?? 'default',
      pod: pod.metadata.name,
      container,
      life: `${pod.metadata.uid ?? pod.metadata.name}/${container}/${number(state?.['restartCount'])}`,
      isRunning: fields(state?.['state'])['running'] !== undefined,
    }
  })
}

/** Pure: one line for people. */
export function describePod(pod: KubeObject): string {
  const status = fields(pod['status'])
  const states = list(status['containerStatuses'])
  const ready = states.filter((state) => state['ready'] === true).length
  const restarts = states.reduce((sum, state) => sum + number(state['restartCount']), 0)
  const node = said(fields(pod['spec'])['nodeName'])
  const phase = said(status['phase']) || 'Unknown'
  const place = `${pod.metadata.namespace ?? 'default'}/${pod.metadata.name}`
  return `${place}: ${phase}, ${ready} of ${states.length} containers ready, ${restarts} restarts${node === '' ? '' : `, on ${node}`}`
}
