import { SERVER_NAME, type JobNetwork } from './job-network.ts'
import type { ManifestOperation, ManifestTarget, OperationName } from './manifest.ts'
import type { AgentRole, JobKind } from './states.ts'

interface KindRule {
  /** The only agents that do such jobs. */
  agent: AgentRole
  /** The only operations that such a job may hold. */
  operations: readonly OperationName[]
  /** Its plugin is the agent's own, of this name; no other plugin may do such a job. */
  ownPlugin?: string
  /** The role in the customer's cloud, unless the app says otherwise; null: none. */
  role: string | null
  network: JobNetwork
}

const OPEN: JobNetwork = { mode: 'open', names: [] }
/** What calls a cloud: the app declares the names. */
const EGRESS: JobNetwork = { mode: 'egress', names: [] }
const CLUSTER: JobNetwork = { mode: 'cluster', names: [] }
const TO_SERVER: JobNetwork = { mode: 'egress', names: [SERVER_NAME] }

/** What a job of each kind may be: who does it, what it holds, what it reaches. */
export const KIND_RULES: Record<JobKind, KindRule> = {
  build: { agent: 'build', operations: ['build'], role: null, network: OPEN },
  sync: { agent: 'install', operations: ['sync'], ownPlugin: 'sync', role: null, network: TO_SERVER },
  plan: { agent: 'install', operations: ['plan'], role: 'maintenance', network: EGRESS },
  deploy: { agent: 'install', operations: ['deploy'], role: 'maintenance', network: EGRESS },
  destroy: { agent: 'install', operations: ['destroy'], role: 'maintenance', network: EGRESS },
  sandbox: { agent: 'setup', operations: ['sandbox'], role: 'provision', network: EGRESS },
  action: { agent: 'install', operations: ['action'], role: 'maintenance', network: EGRESS },
  logs: { agent: 'install', operations: ['logs'], role: 'maintenance', network: CLUSTER },
  debug: { agent: 'install', operations: ['debug'], role: 'maintenance', network: CLUSTER },
}

/** Their work is in the cluster, or on the agent's own engine: they call nobody outside. */
const CLUSTER_PLUGINS = [
  'helm_chart',
  'kubernetes_manifest',
  'kubernetes_secrets',
  'container_image',
  'docker_build',
]

/** Pure: what a job reaches unless the app declares names. */
export function defaultNetwork(
  kind: JobKind,
  operations: readonly Pick<ManifestOperation, 'plugin'>[],
): JobNetwork {
  const { network } = KIND_RULES[kind]
  const isInCluster = operations.every(({ plugin }) => CLUSTER_PLUGINS.includes(plugin.name))
  return network === EGRESS && isInCluster ? CLUSTER : network
}

/** Pure: why a manifest holds what its kind may not; undefined when it does not. */
export function breachOfKind(manifest: {
  kind: JobKind
  target: ManifestTarget
  operations: readonly Pick<ManifestOperation, 'operation' | 'plugin'>[]
}): string | undefined {
  const { kind, target, operations } = manifest
  const { agent, operations: allowed, ownPlugin } = KIND_RULES[kind]
  if (target.role !== agent) return `a ${kind} job is for the ${agent} agent, not the ${target.role} agent`
  for (const { operation, plugin } of operations) {
    if (!allowed.includes(operation)) return `a ${kind} job may not hold the operation ${operation}`
    const isOwn = plugin.digest === null
    if (isOwn !== (ownPlugin !== undefined) || (ownPlugin !== undefined && plugin.name !== ownPlugin))
      return `a ${kind} job may not run the plugin ${plugin.name}${isOwn ? ' of the agent' : ' of a registry'}`
  }
  return undefined
}
