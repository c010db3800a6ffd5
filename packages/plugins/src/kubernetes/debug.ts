import type { DebugRequest } from '@tenon/protocol'
import { PluginError } from '../sdk/errors.ts'
import type { OperationResult } from '../sdk/plugin.ts'
import type { Target } from './component.ts'
import { fields, said } from './fields.ts'
import type { KubeObject } from './objects.ts'
import { containersOf, describePod, podsOfObjects, type PodContainer } from './pods.ts'
import { look, timeOf } from './watch.ts'

const MAX_EVENTS = 30

/** With a command: runs it in a container of the component. Without one: says what the cluster knows about it. */
export async function debugObjects(target: Target, objects: readonly KubeObject[]): Promise<OperationResult> {
  const { work, cluster, namespace } = target
  const request = work.config.debug ?? { command: [] }
  const pods = await podsOfObjects(cluster, objects, namespace)
  return request.command.length > 0
    ? execute(target, request, pods.flatMap(containersOf))
    : diagnose(target, objects, pods)
}

async function execute(
  { work, cluster }: Target,
  request: DebugRequest,
  containers: PodContainer[],
): Promise<OperationResult> {
  const chosen = containers.find(
    ({ pod, container, isRunning }) =>
      isRunning &&
      [undefined, pod].includes(request.pod) &&
      [undefined, container].includes(request.container),
  )
  if (chosen === undefined) throw noneRuns(work.name, request, containers)
  const { namespace, pod, container } = chosen
  work.log(`in ${namespace}/${pod}, container ${container}`)
  const args = ['exec', '-n', namespace, pod, '-c', container, '--', ...request.command]
  const { code } = await cluster.stream(args, work.log)
  const message = `The command ended with code ${code ?? 'unknown'} in ${namespace}/${pod}, container ${container}.`
  return { ok: code === 0, message, data: { exitCode: code, namespace, pod, container } }
}

async function diagnose(
  { work, cluster, namespace }: Target,
  objects: readonly KubeObject[],
  pods: readonly KubeObject[],
): Promise<OperationResult> {
  for (const pod of pods) work.log(describePod(pod))
  const troubles = (await look(cluster, objects, namespace)).map(({ reason }) => reason)
  for (const trouble of troubles) work.log(`trouble: ${trouble}`)
  for (const line of await eventsOf(cluster, pods)) work.log(`event: ${line}`)
  const [worst] = troubles
  const count = `${pods.length} ${pods.length === 1 ? 'pod' : 'pods'}`
  const message =
    worst ?? (objects.length === 0 ? `${work.name} has nothing in the cluster.` : `${count}, and no trouble.`)
  const isWell = worst === undefined && objects.length > 0
  return {
    ok: isWell,
    message,
    data: { pods: pods.slice(0, 100).map(describePod), troubles: troubles.slice(0, 20) },
  }
}

async function eventsOf(cluster: Target['cluster'], pods: readonly KubeObject[]): Promise<string[]> {
  const uids = new Set(pods.map(({ metadata }) => metadata.uid))
  const lines: string[] = []
  for (const place of new Set(pods.map(({ metadata }) => metadata.namespace ?? 'default'))) {
    const events = await cluster.get(['events', '-n', place])
    for (const event of events.toSorted((a, b) => timeOf(a).localeCompare(timeOf(b)))) {
      const about = fields(event['involvedObject'])
      if (!uids.has(said(about['uid']))) continue
      lines.push(`${said(about['name'])}: ${said(event['reason'])}: ${said(event['message']).trim()}`)
    }
  }
  return lines.slice(-MAX_EVENTS)
}

function noneRuns(component: string, { pod, container }: DebugRequest, there: PodContainer[]): PluginError {
  const asked = [pod, container].filter((each) => each !== undefined).join('/')
  const names = there.map((each) => `${each.pod}/${each.container}${each.isRunning ? '' : ' (not running)'}`)
  const message = `No container ${asked === '' ? '' : `${asked} `}of ${component} runs; there are: ${names.slice(0, 20).join(', ') || 'none'}.`
  return new PluginError(
    'cluster_refused',
    message,
    'Name one that runs, or ask without a command for what is wrong.',
  )
}
