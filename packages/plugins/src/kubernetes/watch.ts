import { setTimeout as delay } from 'node:timers/promises'
import type { Watch } from '../deploy/health.ts'
import type { ToolEnd } from '../deploy/run-tool.ts'
import { canceled } from '../sdk/errors.ts'
import type { Cluster, ClusterContext } from './cluster.ts'
import { addressOf, keyOf, type KubeObject } from './objects.ts'
import { troubleOf, WATCHED, type Seen, type Trouble } from './readiness.ts'

const PAUSE_MS = 1000
/** A container without a probe counts as ready until it crashes, so one look is not enough. */
const STABLE_MS = 4000
const MAX_LOG_CHARS = 1000

export interface WatchOptions {
  /** Where objects without a namespace of their own are. */
  namespace: string
  timeoutMs: number
}

/** Waits until all objects are ready. The reason from the cluster when they will not be; undefined when they are. */
export async function waitUntilReady(
  context: ClusterContext,
  cluster: Cluster,
  objects: readonly KubeObject[],
  options: WatchOptions,
): Promise<string | undefined> {
  const watched = objects.filter(({ kind }) => WATCHED.includes(kind))
  if (watched.length === 0) return undefined
  const giveUp = Date.now() + options.timeoutMs
  const eyes = openEyes(cluster, watched, options.namespace)
  let told = ''
  let goodSince: number | undefined
  for (;;) {
    if (context.signal.aborted) throw canceled()
    const { troubles, final, now } = await eyes()
    goodSince = troubles.length === 0 ? (goodSince ?? now) : undefined
    if (goodSince !== undefined && now - goodSince >= STABLE_MS) return undefined
    if (final) return withLogs(cluster, final)
    const [worst] = troubles
    if (now >= giveUp && worst) return withLogs(cluster, worst, options.timeoutMs)
    const words = `waiting: ${troubles
      .map(({ reason }) => reason)
      .slice(0, 3)
      .join('; ')}`
    if (worst && words !== told) context.log((told = words))
    await delay(PAUSE_MS, undefined, { signal: context.signal }).catch((cause: unknown) => {
      throw canceled(cause)
    })
  }
}

/** For the time in which a component's own probes are out. */
export function watchObjects(cluster: Cluster, objects: readonly KubeObject[], namespace: string): Watch {
  const eyes = openEyes(cluster, objects, namespace)
  // Kept, since a container that crashes looks well again between two crashes.
  let crash: Trouble | undefined
  const see = async () => {
    const seen = await eyes()
    crash = seen.troubles.find(({ logsOf }) => logsOf !== undefined) ?? crash
    return seen
  }
  return {
    async look() {
      const { final } = await see()
      return final && withLogs(cluster, final)
    },
    async worst() {
      const { final, troubles } = await see()
      const worst = final ?? crash ?? troubles[0]
      return worst && withLogs(cluster, worst)
    },
  }
}

/** Each look knows how long every trouble has lasted; `final` is one that lasted too long. */
function openEyes(cluster: Cluster, objects: readonly KubeObject[], namespace: string): () => Promise<Sight> {
  const since = new Map<string, number>()
  return async () => {
    const troubles = await look(cluster, objects, namespace)
    const now = Date.now()
    for (const kind of since.keys())
      if (!troubles.some((trouble) => trouble.kind === kind)) since.delete(kind)
    for (const { kind } of troubles) if (!since.has(kind)) since.set(kind, now)
    const isOver = ({ kind, patienceMs }: Trouble) => now - (since.get(kind) ?? now) >= patienceMs
    return { troubles, final: troubles.find(isOver), now }
  }
}

interface Sight {
  troubles: Trouble[]
  final: Trouble | undefined
  now: number
}

/** One look: why they are not all ready, worst first; nothing when they are. */
export async function look(
  cluster: Cluster,
  objects: readonly KubeObject[],
  namespace: string,
): Promise<Trouble[]> {
  const watched = objects.filter(({ kind }) => WATCHED.includes(kind))
  const present = await presentOf(cluster, watched, namespace)
  const quick: Seen = { objects: present, pods: [], replicaSets: [], events: [] }
  const isThere = (object: KubeObject) =>
    present.some((each) => keyOf(each) === keyOf(placed(object, namespace)))
  const absent = watched.filter((object) => !isThere(object)).map(absence)
  const late = present.filter((object) => troubleOf(object, quick) !== undefined)
  if (late.length === 0) return absent
  const seen = await around(cluster, present, late)
  const troubles = late.flatMap((object) => troubleOf(object, seen) ?? [])
  return [...troubles, ...absent].toSorted((a, b) => a.patienceMs - b.patienceMs)
}

/** Everything in one place is asked for in one call. */
export async function presentOf(
  cluster: Cluster,
  objects: readonly KubeObject[],
  namespace: string,
): Promise<KubeObject[]> {
  const all = objects.map((object) => placed(object, namespace))
  const found: KubeObject[] = []
  for (const place of new Set(all.map(({ metadata }) => metadata.namespace ?? ''))) {
    const group = all.filter(({ metadata }) => (metadata.namespace ?? '') === place)
    const names = group.map(({ kind, metadata }) => `${kind.toLowerCase()}/${metadata.name}`)
    found.push(...(await cluster.get([...names, ...(place === '' ? [] : ['-n', place])])))
  }
  return found
}

async function around(
  cluster: Cluster,
  objects: readonly KubeObject[],
  late: readonly KubeObject[],
): Promise<Seen> {
  const seen = {
    objects,
    pods: [] as KubeObject[],
    replicaSets: [] as KubeObject[],
    events: [] as KubeObject[],
  }
  for (const place of new Set(late.flatMap(({ metadata }) => metadata.namespace ?? []))) {
    for (const object of await cluster.get(['pods,replicasets.apps,events', '-n', place])) {
      if (object.kind === 'Pod') seen.pods.push(object)
      else if (object.kind === 'ReplicaSet') seen.replicaSets.push(object)
      else if (object.kind === 'Event') seen.events.push(object)
    }
  }
  seen.events.sort((a, b) => timeOf(a).localeCompare(timeOf(b)))
  return seen
}

export function timeOf(event: KubeObject): string {
  for (const key of ['lastTimestamp', 'eventTime']) {
    const value = event[key]
    if (typeof value === 'string') return value
  }
  return ''
}

function absence(object: KubeObject): Trouble {
  const reason = `${addressOf(object)} is not there`
  return { kind: reason, reason, patienceMs: 30_000 }
}

function placed(object: KubeObject, namespace: string): KubeObject {
  if (object.metadata.namespace !== undefined || object.kind === 'CustomResourceDefinition') return object
  return { ...object, metadata: { ...object.metadata, namespace } }
}

/** The last words of a container that crashed say more than any status. */
async function withLogs(cluster: Cluster, trouble: Trouble, waitedMs?: number): Promise<string> {
  const waited = waitedMs === undefined ? '' : ` (after ${Math.round(waitedMs / 1000)} seconds)`
  if (trouble.logsOf === undefined) return `${trouble.reason}${waited}`
  const { namespace, pod, container, previous } = trouble.logsOf
  const args = [
    'logs',
    '-n',
    namespace,
    pod,
    '--tail=10',
    ...(container === undefined ? [] : ['-c', container]),
  ]
  // The run before may be swept away just when the next one has begun; that one has often said the same by now.
  let said = previous ? wordsOf(await cluster.kubectl([...args, '--previous'])) : ''
  if (said === '') said = wordsOf(await cluster.kubectl(args))
  return `${trouble.reason}${waited}${said === '' ? '' : `; its last words: ${said.slice(-MAX_LOG_CHARS)}`}`
}

function wordsOf({ code, stdout }: ToolEnd): string {
  const isNone = code !== 0 || stdout.startsWith('unable to retrieve container logs')
  return isNone ? '' : stdout.trim()
}
