import { SERVER_NAME, type JobManifest } from '@tenon/core'
import type { ProxySettings } from '../ground/proxy.ts'
import type { OwnNetwork } from '../runtime/runtime.ts'
import type { EgressRules } from './decide.ts'
import { allowedNetwork, isClosed, mayProbe, reachesCluster, type NetworkLimits } from './network.ts'
import { isLoopback, parseTarget, showTarget, targetOf, type Target } from './target.ts'

/** Any would do on a loopback of the job's own; this is where people look for a proxy. */
const PROXY_PORT = 3128
/** Each is a listening port of the job's own, and what outputs hold is anybody's. */
const MAX_FORWARDED_OUTPUTS = 64

export interface EgressSettings {
  serverUrl: string
  registryUrl: string | undefined
  /** API servers that the jobs' kubeconfig names. */
  clusters: readonly Target[]
  limits: NetworkLimits | undefined
  proxy: ProxySettings
  /** The authorities that the agent's machine trusts besides the usual ones, as PEM. */
  authorities: string | undefined
}

/** Pure. */
export function rulesFor(manifest: JobManifest, settings: EgressSettings): EgressRules {
  const { serverUrl, registryUrl, clusters, limits } = settings
  const network = allowedNetwork(manifest, limits)
  const own = reachesCluster(manifest.kind) ? clusters : []
  return {
    network,
    serverUrl,
    registryUrl: registryUrl ?? serverUrl,
    clusters: own,
    mayProbe: mayProbe(network, limits?.[manifest.kind]),
  }
}

/** Pure: how a job with a network of its own finds the relay, in the forms that tools know. */
export function ownNetworkOf(
  rules: EgressRules,
  settings: EgressSettings,
  isDemanded: boolean,
  outputs: readonly Target[] = [],
): OwnNetwork | undefined {
  if (!isClosed(rules.network)) return undefined
  return { env: insideEnv(rules, [], outputs), openEnv: openEnv(settings, false), isDemanded }
}

/** Pure: where a loopback is the job's own, what it may reach on the machine's answers under the same address. */
export function insideEnv(
  rules: EgressRules,
  direct: readonly string[] = [],
  outputs: readonly Target[] = [],
): Record<string, string> {
  const targets = loopbackTargets(rules, outputs)
  const port = freePort(targets)
  const url = `http://127.0.0.1:${port}`
  const near = ['127.0.0.1', 'localhost', '::1', ...direct].join(',')
  return {
    TENON_JOB_FORWARDS: targets.map(showTarget).join(','),
    TENON_JOB_PROXY: `127.0.0.1:${port}`,
    ...both('HTTPS_PROXY', url),
    ...both('HTTP_PROXY', url),
    ...both('NO_PROXY', near),
  }
}

/** Pure: an open job dials by itself, or through the relay where the agent has a proxy, whose user no job sees. */
export function openEnv(
  { proxy }: EgressSettings,
  hasOwnLoopback: boolean,
  direct: readonly string[] = [],
): Record<string, string> {
  if (!proxy.httpProxy && !proxy.httpsProxy) return {}
  const near = ['127.0.0.1', 'localhost', '::1', ...direct, ...(proxy.noProxy ? [proxy.noProxy] : [])].join(
    ',',
  )
  const url = `http://127.0.0.1:${PROXY_PORT}`
  return {
    TENON_JOB_PROXY: hasOwnLoopback ? `127.0.0.1:${PROXY_PORT}` : 'any',
    ...both('NO_PROXY', near),
    ...(hasOwnLoopback ? { ...both('HTTPS_PROXY', url), ...both('HTTP_PROXY', url) } : {}),
  }
}

/** Some tools read a variable in capitals, some in small letters. */
function both(name: string, value: string): Record<string, string> {
  return { [name]: value, [name.toLowerCase()]: value }
}

/** The outputs last: where they name what is there already, that one counts. */
function loopbackTargets(
  { network, registryUrl, serverUrl, clusters }: EgressRules,
  outputs: readonly Target[],
): Target[] {
  const found = network.mode === 'egress' ? outputs.filter(isLoopback) : []
  const wanted = [
    targetOf(new URL(registryUrl)),
    ...network.names.map((name) => (name === SERVER_NAME ? targetOf(new URL(serverUrl)) : parseTarget(name))),
    ...(network.mode === 'internal' ? [] : clusters),
    ...unique(found).slice(0, MAX_FORWARDED_OUTPUTS),
  ].filter((each) => each !== undefined)
  return unique(wanted.filter(isLoopback))
}

function unique(targets: readonly Target[]): Target[] {
  return [...new Map(targets.map((each) => [showTarget(each), each])).values()]
}

function freePort(taken: readonly Target[]): number {
  let port = PROXY_PORT
  while (taken.some((each) => each.port === port)) port += 1
  return port
}
