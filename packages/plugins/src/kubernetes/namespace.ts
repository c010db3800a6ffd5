import { setTimeout as delay } from 'node:timers/promises'
import { PluginError } from '../sdk/errors.ts'
import type { Cluster } from './cluster.ts'
import type { KubeObject } from './objects.ts'

const OWNED = 'app.kubernetes.io/managed-by=tenon'
const PAUSE_MS = 1000
const LEFT_ALONE: readonly string[] = ['default', 'kube-system', 'kube-public', 'kube-node-lease']

/** Makes the namespace where it is missing, and notes on one that is ours which components live there. */
export async function ensureNamespace(cluster: Cluster, name: string, component: string): Promise<void> {
  if (LEFT_ALONE.includes(name)) return
  const there = await lasting(cluster, name)
  if (there === undefined) {
    await cluster.must(['create', 'namespace', name])
    await cluster.must(['label', 'namespace', name, OWNED])
  } else if (there.metadata.labels?.['app.kubernetes.io/managed-by'] !== 'tenon') return
  await cluster.must(['label', 'namespace', name, `${markOf(component)}=`, '--overwrite'])
}

/** Removes a namespace that is ours once no component lives there; claims on storage keep it. Says what stays. */
export async function leaveNamespace(
  cluster: Cluster,
  name: string,
  component: string,
): Promise<string | undefined> {
  if (LEFT_ALONE.includes(name)) return undefined
  const [there] = await cluster.get(['namespace', name])
  const labels = there?.metadata.labels ?? {}
  if (there === undefined || labels['app.kubernetes.io/managed-by'] !== 'tenon') return undefined
  await cluster.must(['label', 'namespace', name, `${markOf(component)}-`])
  const others = Object.keys(labels).filter((key) => key.startsWith(MARK) && key !== markOf(component))
  if (others.length > 0) return undefined
  const claims = await cluster.get(['persistentvolumeclaims', '-n', name])
  if (claims.length > 0) {
    return `The namespace ${name} stays: it has ${claims.length} claims on storage, which only a person removes.`
  }
  await cluster.must(['delete', 'namespace', name, '--ignore-not-found', '--wait=false'])
  await untilGone(cluster, name)
  return undefined
}

/** One that is just going takes nothing any more: it is waited for, and counts as absent. */
async function lasting(cluster: Cluster, name: string): Promise<KubeObject | undefined> {
  const [there] = await cluster.get(['namespace', name])
  if (there?.metadata.deletionTimestamp === undefined) return there
  await untilGone(cluster, name)
  return undefined
}

async function untilGone(cluster: Cluster, name: string): Promise<void> {
  const giveUp = Date.now() + cluster.patienceMs
  let told: string | undefined
  for (;;) {
    const [there] = await cluster.get(['namespace', name])
    if (there === undefined) return
    if (Date.now() >= giveUp) throw stillThere(there)
    const reason = whatKeeps(there)
    if (reason !== told) cluster.log(`waiting: the namespace ${name} is going${reason && `; ${reason}`}`)
    told = reason
    await delay(PAUSE_MS)
  }
}

function stillThere(namespace: KubeObject): PluginError {
  const reason = whatKeeps(namespace) || 'the cluster does not say why'
  const message = `The namespace ${namespace.metadata.name} does not go: ${reason}.`
  return new PluginError('cluster_refused', message, 'Remove what keeps it, then try again.')
}

/** Pure: in the words of the cluster. */
export function whatKeeps(namespace: KubeObject): string {
  const { conditions = [] } = (namespace['status'] ?? {}) as { conditions?: Condition[] }
  const holding = conditions.filter(({ status, message }) => status === 'True' && message)
  return holding.map(({ message }) => message).join('; ')
}

interface Condition {
  status?: string
  message?: string
}

const MARK = 'component.tenon.dev/'

function markOf(component: string): string {
  return `${MARK}${component}`
}
