import { setTimeout as delay } from 'node:timers/promises'
import { logsRequest, type LogsRequest } from '@tenon/protocol'
import { canceled } from '../sdk/errors.ts'
import type { OperationResult } from '../sdk/plugin.ts'
import type { Target } from './component.ts'
import type { KubeObject } from './objects.ts'
import { containersOf, podsOfObjects, type PodContainer } from './pods.ts'

const LOOK_AGAIN_MS = 2000
/** Each one that is followed is a process of the job. */
const MAX_STREAMS = 20

/** What the component's containers wrote, into the job's own log, where the component's secrets are masked. */
export async function logsOfObjects(
  target: Target,
  objects: () => Promise<readonly KubeObject[]>,
): Promise<OperationResult> {
  const { work, cluster, namespace } = target
  const request = work.config.logs ?? logsRequest.parse({})
  const find = async () => {
    const pods = await podsOfObjects(cluster, await objects(), namespace)
    return pods.flatMap(containersOf).filter((each) => isAskedFor(each, request))
  }
  const found = await find()
  if (!request.follow) {
    if (found.length === 0) return nothingThere(target, request)
    for (const each of found) await stream(target, each, request, tailOf(request))
    return done(found)
  }
  return follow(target, request, found, find)
}

/** Goes on until the job is told to stop; pods and restarts that come later are followed from their first line. */
async function follow(
  target: Target,
  request: LogsRequest,
  first: PodContainer[],
  find: () => Promise<PodContainer[]>,
): Promise<never> {
  const { work } = target
  const seen = new Set<string>()
  const running = new Map<string, Promise<void>>()
  let found = first
  let isFirst = true
  for (;;) {
    const fresh = found.filter(({ life, isRunning }) => isRunning && !seen.has(life))
    for (const each of fresh.slice(0, MAX_STREAMS - running.size)) {
      seen.add(each.life)
      const reading = stream(target, each, request, isFirst ? tailOf(request) : ['--tail=-1'])
      // It ends with its container, or with the job, and neither is a problem here.
      running.set(
        each.life,
        reading.catch(() => undefined).finally(() => running.delete(each.life)),
      )
    }
    isFirst = false
    await delay(LOOK_AGAIN_MS, undefined, { signal: work.signal }).catch(() => undefined)
    if (work.signal.aborted) break
    found = await find()
  }
  await Promise.all(running.values())
  throw canceled()
}

async function stream(
  { work, cluster }: Target,
  { namespace, pod, container }: PodContainer,
  request: LogsRequest,
  tail: string[],
): Promise<void> {
  const args = ['logs', '-n', namespace, pod, '-c', container, ...tail]
  if (request.sinceSeconds !== undefined) args.push(`--since=${request.sinceSeconds}s`)
  if (request.previous) args.push('--previous')
  if (request.follow) args.push('--follow')
  await cluster.stream(args, (line) => work.log(`${pod} ${container}: ${line}`))
}

function tailOf({ tailLines }: LogsRequest): string[] {
  return [`--tail=${tailLines}`]
}

function isAskedFor({ pod, container }: PodContainer, request: LogsRequest): boolean {
  return (
    (request.pod === undefined || request.pod === pod) &&
    (request.container === undefined || request.container === container)
  )
}

function nothingThere({ work, namespace }: Target, { pod, container }: LogsRequest): OperationResult {
  const which = [pod && `the pod ${pod}`, container && `the container ${container}`].filter(Boolean)
  const among = which.length === 0 ? '' : ` that is ${which.join(' and ')}`
  const message = `No container of ${work.name} is in the cluster${among}.`
  return { ok: false, message, data: { namespace, containers: [] } }
}

function done(found: readonly PodContainer[]): OperationResult {
  const containers = found.map(({ namespace, pod, container }) => `${namespace}/${pod}/${container}`)
  const words = containers.length === 1 ? 'one container' : `${containers.length} containers`
  return { ok: true, message: `The log of ${words}.`, data: { containers: containers.slice(0, 200) } }
}
