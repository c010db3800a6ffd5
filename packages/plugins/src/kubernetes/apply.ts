import { refused, type Cluster } from './cluster.ts'
import { keyOf, listOf, type KubeObject } from './objects.ts'

const APPLY = [
  'apply',
  '--server-side',
  '--force-conflicts',
  '--field-manager=tenon',
  '-f',
  '-',
  '-o',
  'json',
]

/** kubectl gives up by itself, with words; only one that hangs is ended from outside. */
const SLACK_MS = 10_000

/** What others need before they can be: namespaces, and the kinds that custom resources are of. */
export function isFirst({ kind }: KubeObject): boolean {
  return kind === 'Namespace' || kind === 'CustomResourceDefinition'
}

/** As the cluster has them afterwards, with their namespaces. */
export async function applyObjects(
  cluster: Cluster,
  namespace: string,
  objects: readonly KubeObject[],
): Promise<KubeObject[]> {
  if (objects.length === 0) return []
  return parsed(await cluster.must([...APPLY, '-n', namespace], listOf(objects)))
}

export interface Predicted {
  /** As they would be after the change. */
  objects: KubeObject[]
  /** As they are now, as far as they are there. */
  live: KubeObject[]
}

/** Asks the cluster itself what applying would make of each object, with its defaults and admission. */
export async function predict(
  cluster: Cluster,
  namespace: string,
  objects: readonly KubeObject[],
): Promise<Predicted> {
  const isThere = (await cluster.get(['namespace', namespace])).length > 0
  if (!isThere) return { objects: objects.map((object) => object), live: [] }
  const early = objects.filter((object) => !dependsOnNew(object, objects))
  const late = objects.filter((object) => dependsOnNew(object, objects))
  const answer = await cluster.kubectl([...APPLY, '-n', namespace, '--dry-run=server'], listOf(early))
  if (answer.code !== 0) throw refused('the change', answer)
  const predicted = parsed(answer.stdout)
  const live = await liveOf(cluster, namespace, predicted)
  return { objects: [...predicted, ...late], live }
}

/** Those of the objects that the cluster has. */
export async function liveOf(
  cluster: Cluster,
  namespace: string,
  objects: readonly KubeObject[],
): Promise<KubeObject[]> {
  if (objects.length === 0) return []
  const end = await cluster.kubectl(
    ['get', '-f', '-', '-o', 'json', '--ignore-not-found', '-n', namespace],
    listOf(objects),
  )
  if (end.code === 0) return end.stdout.trim() === '' ? [] : parsed(end.stdout)
  if (/no matches for kind|NotFound/.test(end.stderr)) return []
  throw refused('get', end)
}

/** What goes is deleted last first; each is gone when this returns. */
export async function deleteObjects(
  cluster: Cluster,
  namespace: string,
  objects: readonly KubeObject[],
): Promise<void> {
  for (const object of objects.toReversed()) {
    const { patienceMs } = cluster
    const args = ['delete', '-f', '-', '-n', namespace, '--ignore-not-found', '--wait=true']
    const timeout = `--timeout=${Math.round(patienceMs / 1000)}s`
    const end = await cluster.kubectl([...args, timeout], JSON.stringify(object), patienceMs + SLACK_MS)
    if (end.code !== 0 && !isAbsent(object, end.stderr)) throw refused('delete', end)
  }
}

/**
 * Pure: whether this complaint is that just this object, or its kind, is not there. A login, a host or a path that was
 * `not found` says nothing about the object; and a cluster that cannot list its kinds knows none for the moment.
 */
export function isAbsent({ apiVersion, kind, metadata }: KubeObject, complaint: string): boolean {
  const lines = complaint.split('\n')
  const unknown = [/couldn't get current server API group list/, /couldn't get resource list for (\S+):/]
  const isUnsure = (line: string) => {
    const found = unknown.map((words) => words.exec(line)).find((match) => match !== null)
    return found !== undefined && (found?.[1] ?? apiVersion) === apiVersion
  }
  if (lines.some(isUnsure)) return false
  return lines.some((line) => {
    if (line.includes(`no matches for kind "${kind}" in version`)) return true
    return line.startsWith('Error from server (NotFound)') && line.endsWith(` "${metadata.name}" not found`)
  })
}

/** Its namespace or its kind comes with the same change, so the cluster cannot tell anything yet. */
function dependsOnNew(object: KubeObject, all: readonly KubeObject[]): boolean {
  const namespaces = all.filter(({ kind }) => kind === 'Namespace').map(({ metadata }) => metadata.name)
  if (namespaces.includes(object.metadata.namespace ?? '')) return true
  return all.some(({ kind, ...crd }) => {
    if (kind !== 'CustomResourceDefinition') return false
    const spec = crd['spec'] as { group?: string; names?: { kind?: string } } | undefined
    return spec?.names?.kind === object.kind && object.apiVersion.startsWith(`${spec?.group}/`)
  })
}

function parsed(text: string): KubeObject[] {
  const value = JSON.parse(text) as { items?: KubeObject[] } & KubeObject
  return value.items ?? [value]
}

export function without(objects: readonly KubeObject[], gone: readonly KubeObject[]): KubeObject[] {
  const keys = new Set(gone.map(keyOf))
  return objects.filter((object) => !keys.has(keyOf(object)))
}
