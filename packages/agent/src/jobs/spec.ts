import path from 'node:path'
import type { JobKind, JobManifest } from '@tenon/core'
import type { AgentConfig } from '../config.ts'
import { insideEnv, openEnv, ownNetworkOf, rulesFor, type EgressSettings } from '../egress/job-egress.ts'
import { isClosed, reachesCluster, type NetworkLimits } from '../egress/network.ts'
import type { Target } from '../egress/target.ts'
import type { JobSpec, RuntimeTraits } from '../runtime/runtime.ts'

/** In the job's folder, beside its token. */
const CA_FILE = 'job-api.pem'
const AUTHORITIES_FILE = 'authorities.pem'
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export interface JobSpecSettings {
  node: string
  /** Folder with `job.mjs`, the program that a job runs. */
  programs: string
  apiSocket: string
  /** Where jobs see no socket of the agent: its address and certificate. */
  remoteApi?: { url: string; ca: string } | undefined
  /** On `kubernetes`: the service account of each kind of job; a kind without one has no access to the cloud. */
  serviceAccounts?: Readonly<Partial<Record<JobKind, string>>> | undefined
  egress: EgressSettings
  /** On `kubernetes`, where the agent's own pod finds the API server. */
  apiServerHost?: string | undefined
  hostSocket: string | undefined
  lentPaths: string[]
  toolPaths: string[]
  jobKubeconfig: string | undefined
  /** The agent's own folder, in which it keeps what a sync notes for the next one. */
  agentDir: string
  /** An engine runs its image's own program, which the image brings with it. */
  isContainer: boolean
  /** The fake runtime takes its behaviour from the component's configuration. */
  isFake: boolean
}

/** Pure: what follows from the agent's settings alone. */
export function jobSpecSettings(
  config: AgentConfig,
  { starts, isFake = false }: RuntimeTraits,
): Omit<JobSpecSettings, 'apiSocket' | 'remoteApi' | 'egress'> {
  return {
    node: process.execPath,
    programs: config.programs,
    serviceAccounts: config.kubernetes?.serviceAccounts,
    apiServerHost: config.kubernetes?.serviceHost,
    hostSocket: config.hostSocket,
    lentPaths: config.lentPaths,
    toolPaths: config.toolPaths,
    jobKubeconfig: config.jobKubeconfig,
    agentDir: config.dir,
    isContainer: starts === 'image',
    isFake,
  }
}

/** Pure: the folder that the syncs of one component share, one after the other; other jobs have none. */
export function cacheDirOf(agentDir: string, manifest: JobManifest): string | undefined {
  if (manifest.kind !== 'sync') return undefined
  return path.join(agentDir, 'sync', manifest.operations[0]?.component ?? 'none')
}

/**
 * Pure: everything a job gets. A job starts in its own folder, so its token's file is named from there. `outputs` are the
 * addresses that it may reach by the outputs of components.
 */
export function buildJobSpec(
  manifest: JobManifest,
  token: string,
  settings: JobSpecSettings,
  outputs: readonly Target[] = [],
): JobSpec {
  const { remoteApi } = settings
  const serviceAccount = settings.serviceAccounts?.[manifest.kind]
  const { env, ...network } = networkOfJob(manifest, settings, outputs)
  const { authorities } = settings.egress
  return {
    jobId: manifest.jobId,
    fence: manifest.fence,
    command: settings.isContainer ? [] : [settings.node, path.join(settings.programs, 'job.mjs')],
    env: {
      ...env,
      TENON_JOB_URL: remoteApi?.url ?? `unix:${settings.apiSocket}`,
      TENON_JOB_TOKEN_FILE: 'token',
      ...(remoteApi ? { TENON_JOB_CA_FILE: CA_FILE } : {}),
      // By a name from the job's folder, in which its program starts.
      ...(authorities === undefined ? {} : { NODE_EXTRA_CA_CERTS: AUTHORITIES_FILE }),
      PATH: [...settings.toolPaths, SYSTEM_PATH].join(path.delimiter),
      ...(isLentTo(manifest, settings) ? { TENON_LENT_PATHS: settings.lentPaths.join(path.delimiter) } : {}),
      ...(settings.isFake ? fakeBehaviour(manifest) : {}),
    },
    files: {
      token,
      ...(remoteApi ? { [CA_FILE]: remoteApi.ca } : {}),
      ...(authorities === undefined ? {} : { [AUTHORITIES_FILE]: authorities }),
    },
    ...(serviceAccount === undefined ? {} : { serviceAccount }),
    mounts: remoteApi ? [] : mountsOf(manifest, settings),
    ...network,
    ...(manifest.kind === 'build' ? { mayNestUsers: true } : {}),
    limits: { ...manifest.limits },
  }
}

/** Pods speak to it themselves, not through the relay. An agent outside the cluster does not know its address there. */
function apiServerNames(host: string | undefined): string[] {
  const ranges = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16']
  return ['kubernetes.default.svc', ...(host === undefined ? ranges : [host])]
}

/** Pure: whether the customer asks for a network of the job's own, without which such a job shall not run. */
export function demandsWalls(kind: JobKind, limits: NetworkLimits | undefined): boolean {
  const limit = limits?.[kind]
  return limit === 'internal' || limit === 'cluster'
}

const BRINGS_SERVICES: ReadonlySet<string> = new Set(['container_image', 'docker_build'])

/** On a cluster the walls are policies of its network, by the label of the mode; the relay is there all the same. */
function networkOfJob(
  manifest: JobManifest,
  settings: JobSpecSettings,
  outputs: readonly Target[],
): Pick<JobSpec, 'network' | 'ownNetwork' | 'env'> {
  const { egress, isContainer, remoteApi } = settings
  const rules = rulesFor(manifest, egress)
  const { mode } = rules.network
  if (!isClosed(rules.network)) return { network: mode, env: openEnv(egress, isContainer) }
  if (remoteApi !== undefined) {
    const isNear = mode !== 'internal' && reachesCluster(manifest.kind)
    const direct = isNear ? apiServerNames(settings.apiServerHost) : []
    const env = mode === 'egress' ? openEnv(egress, true, direct) : insideEnv(rules, direct)
    return { network: mode, env }
  }
  const isDemanded = demandsWalls(manifest.kind, egress.limits)
  // An engine lets a container without a network into none, that of the services which the job probes neither.
  if (
    isContainer &&
    !isDemanded &&
    manifest.operations.some(({ plugin }) => BRINGS_SERVICES.has(plugin.name))
  )
    return { network: mode, env: openEnv(egress, true) }
  const ownNetwork = ownNetworkOf(rules, egress, isDemanded, outputs)
  return { network: mode, ...(ownNetwork ? { ownNetwork } : {}), env: {} }
}

/** A socket can be connected to through a read-only mount; a job must not be able to put another in its place. */
function mountsOf(manifest: JobManifest, settings: JobSpecSettings): JobSpec['mounts'] {
  const { programs, apiSocket, hostSocket, lentPaths, toolPaths } = settings
  const cacheDir = cacheDirOf(settings.agentDir, manifest)
  const kubeconfig = kubeconfigOf(manifest, settings.jobKubeconfig)
  const isSandbox = manifest.kind === 'sandbox'
  return [
    { path: path.dirname(apiSocket), writable: false },
    ...(settings.isContainer ? [] : [{ path: programs, writable: false }]),
    ...(hostSocket === undefined ? [] : [{ path: path.dirname(hostSocket), writable: false }]),
    ...toolPaths.map((tools) => ({ path: tools, writable: false })),
    ...(kubeconfig === undefined ? [] : [{ path: kubeconfig, writable: false }]),
    ...(cacheDir === undefined ? [] : [{ path: cacheDir, writable: true }]),
    ...(isSandbox || isLentTo(manifest, settings)
      ? lentPaths.map((lent) => ({ path: lent, writable: isSandbox }))
      : []),
  ]
}

/** Access to a cluster goes to the jobs that plan, change or look into components, and to no others. */
export function kubeconfigOf(manifest: JobManifest, kubeconfig: string | undefined): string | undefined {
  return reachesCluster(manifest.kind) ? kubeconfig : undefined
}

/** A build reads what the vendor lent to its build agent: credentials of registries, where providers come from. */
function isLentTo(manifest: JobManifest, settings: JobSpecSettings): boolean {
  return manifest.kind === 'build' && settings.lentPaths.length > 0
}

/** `fake.<job kind>` of the component, so that one component can sync well and deploy badly. */
function fakeBehaviour(manifest: JobManifest): Record<string, string> {
  const component = manifest.operations[0]?.config['component'] as
    | { fake?: Record<string, unknown> }
    | undefined
  return { TENON_FAKE: JSON.stringify(component?.fake?.[manifest.kind] ?? {}) }
}
