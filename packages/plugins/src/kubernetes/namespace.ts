import type { Cluster } from './cluster.ts'

const OWNED = 'app.kubernetes.io/managed-by=tenon'
const LEFT_ALONE: readonly string[] = ['default', 'kube-system', 'kube-public', 'kube-node-lease']

/** Makes the namespace where it is missing, and notes on one that is ours which components live there. */
export async function ensureNamespace(cluster: Cluster, name: string, component: string): Promise<void> {
  if (LEFT_ALONE.includes(name)) return
  const [there] = await cluster.get(['namespace', name])
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
  await cluster.must(['delete', 'namespace', name, '--ignore-not-found', '--timeout=100s'])
  return undefined
}

const MARK = 'component.tenon.dev/'

function markOf(component: string): string {
  return `${MARK}${component}`
}
