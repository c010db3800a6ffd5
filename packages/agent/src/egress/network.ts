import { narrowNetwork, type JobKind, type JobManifest, type JobNetwork, type NetworkMode } from '@tenon/core'

export type NetworkLimits = Readonly<Partial<Record<JobKind, NetworkMode>>>

/** Pure: what the customer leaves of what the manifest gives. */
export function allowedNetwork(
  { kind, network }: Pick<JobManifest, 'kind' | 'network'>,
  limits: NetworkLimits | undefined,
): JobNetwork {
  return narrowNetwork(network, limits?.[kind])
}

/** Pure: what a customer closes by name stays closed to probes, which an app declares. */
export function mayProbe({ mode }: JobNetwork, limit: NetworkMode | undefined): boolean {
  return mode !== 'internal' && limit !== 'internal' && limit !== 'cluster'
}

/** Pure: whether the job has a network of its own, out of which only the agent's relay leads. */
export function isClosed({ mode, names }: JobNetwork): boolean {
  return mode === 'internal' || mode === 'cluster' || (mode === 'egress' && names.length > 0)
}

const REACHES_CLUSTER: ReadonlySet<JobKind> = new Set<JobKind>([
  'plan',
  'deploy',
  'destroy',
  'action',
  'logs',
  'debug',
])

/** Pure: jobs that plan, change or look into components, and no others. */
export function reachesCluster(kind: JobKind): boolean {
  return REACHES_CLUSTER.has(kind)
}
