import { createHash } from 'node:crypto'
import { JOB_SURROUNDINGS } from '@tenon/protocol'
import type { JobSpec } from '../runtime.ts'
import { WRAPPER_PIDS } from '../wrapper.ts'
import { INSIDE, KEEPER, KEEPER_SECONDS, WRAPPER } from './pod-scripts.ts'

export const CONTAINER = { job: 'job', keeper: 'keeper' } as const

const TMP_BYTES = 64 * 1024 * 1024
/** The log lies on the node until the agent has it; a job that prints more is evicted. */
const LOG_BYTES = 1024 * 1024 * 1024
const KEEPER_MEMORY_BYTES = 32 * 1024 * 1024
/** Processes of the keeper and of commands that the agent runs in the pod. */
const KEEPER_PIDS = 24
/** What of its CPU limit a job is promised: most wait for others most of the time. */
const CPU_SHARE = 0.1
/** One user per job: on one node, no two jobs share what the kernel counts by user. Above what systems hand out. */
const USERS = { first: 1_000_000_000, count: 1_000_000_000 }
const GROUP = 65532
/** How long a node may be silent before the cluster gives its jobs up. */
const NODE_AWAY_SECONDS = 300

export interface PodParts {
  name: string
  spec: JobSpec
  image: string
  command: string[]
  workBytes: number
  hasPullSecret: boolean
  /** Where the job API is, for jobs that may ask no DNS. */
  hostAliases?: HostAlias[] | undefined
}

export interface HostAlias {
  ip: string
  hostnames: string[]
}

/** The folder that a job works in, as it sees it: no two jobs have the same. */
export function folderOf(jobId: string): string {
  return `/jobs/${jobId}`
}

/** Pure: one pod, the job and its keeper. */
export function podSpec(parts: PodParts): PodSpec {
  const { spec, name, hasPullSecret, workBytes } = parts
  const user = userOf(name)
  return {
    restartPolicy: 'Never',
    terminationGracePeriodSeconds: Math.ceil(spec.limits.graceSeconds) + 2 * KEEPER_SECONDS,
    enableServiceLinks: false,
    ...(spec.network === 'internal' ? namesOf(parts.hostAliases) : {}),
    automountServiceAccountToken: spec.serviceAccount !== undefined,
    ...(spec.serviceAccount === undefined ? {} : { serviceAccountName: spec.serviceAccount }),
    ...(hasPullSecret ? { imagePullSecrets: [{ name: `${name}-pull` }] } : {}),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: user,
      runAsGroup: GROUP,
      fsGroup: GROUP,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    tolerations: ['not-ready', 'unreachable'].map((state) => ({
      key: `node.kubernetes.io/${state}`,
      operator: 'Exists',
      effect: 'NoExecute',
      tolerationSeconds: NODE_AWAY_SECONDS,
    })),
    containers: [jobContainer(parts), keeperContainer(parts)],
    volumes: [
      { name: 'work', emptyDir: { sizeLimit: String(workBytes) } },
      { name: 'tmp', emptyDir: { sizeLimit: String(TMP_BYTES) } },
      { name: 'run', emptyDir: { sizeLimit: String(LOG_BYTES) } },
      // Optional it is not: a pod that the cluster makes again finds it gone and cannot run the job twice.
      { name: 'files', secret: { secretName: name, defaultMode: 0o440 } },
    ],
  }
}

/** Whoever asks for another name is told at once that there is none, where a wall alone would let it wait. */
function namesOf(hostAliases: HostAlias[] = []): Partial<PodSpec> {
  if (hostAliases.length === 0) return {}
  return { hostAliases, dnsPolicy: 'None', dnsConfig: { nameservers: ['127.0.0.1'] } }
}

function jobContainer({ spec, image, command }: PodParts): Container {
  const { timeoutSeconds, graceSeconds, pids, cpus, memoryBytes } = spec.limits
  const folder = folderOf(spec.jobId)
  const env = { ...spec.env, HOME: folder, TMPDIR: `${folder}/tmp` }
  const numbers = [timeoutSeconds, timeoutSeconds + graceSeconds, graceSeconds]
  const processes = pids + WRAPPER_PIDS + KEEPER_PIDS
  const names = Object.keys(spec.files).join('\n')
  const kept = [...Object.keys(env), ...JOB_SURROUNDINGS].join(' ')
  const words = [...numbers.map(String), String(processes), kept, names]
  const program = spec.command.length > 0 ? spec.command : command
  const cpu = (share: number) => `${Math.max(1, Math.round(cpus * share * 1000))}m`
  const memory = String(memoryBytes)
  return {
    name: CONTAINER.job,
    image,
    imagePullPolicy: 'IfNotPresent',
    command: ['/bin/sh', '-c', WRAPPER, 'tenon-job'].map(literal),
    args: [...words, ...program].map(literal),
    env: Object.entries(env).map(([variable, value]) => ({ name: variable, value: literal(value) })),
    workingDir: '/',
    // Memory is promised, since too little of it ends jobs; of the CPU a job may have more than its share.
    resources: { requests: { cpu: cpu(CPU_SHARE), memory }, limits: { cpu: cpu(1), memory } },
    securityContext: WALLS,
    terminationMessagePath: INSIDE.last,
    terminationMessagePolicy: 'File',
    volumeMounts: [
      { name: 'work', mountPath: folder },
      { name: 'tmp', mountPath: '/tmp' },
      { name: 'run', mountPath: INSIDE.run },
      { name: 'files', mountPath: INSIDE.files, readOnly: true },
    ],
  }
}

/** No sidecar of Kubernetes' own: that one ends with the job, and the log with it, also when no agent is there. */
function keeperContainer({ image }: PodParts): Container {
  return {
    name: CONTAINER.keeper,
    image,
    imagePullPolicy: 'IfNotPresent',
    command: ['/bin/sh', '-c', KEEPER].map(literal),
    args: [],
    env: [],
    workingDir: '/',
    resources: {
      requests: { cpu: '1m', memory: String(KEEPER_MEMORY_BYTES / 2) },
      limits: { cpu: '200m', memory: String(KEEPER_MEMORY_BYTES) },
    },
    securityContext: WALLS,
    volumeMounts: [{ name: 'run', mountPath: INSIDE.run, readOnly: true }],
  }
}

const WALLS = {
  allowPrivilegeEscalation: false,
  privileged: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
}

/** The kubelet reads `$(NAME)` in commands, arguments and variables, and `$$` as one dollar. */
function literal(text: string): string {
  return text.replaceAll('$', '$$$$')
}

function userOf(name: string): number {
  return USERS.first + (createHash('sha256').update(name).digest().readUInt32BE() % USERS.count)
}

export interface PodSpec {
  restartPolicy: 'Never'
  terminationGracePeriodSeconds: number
  enableServiceLinks: boolean
  hostAliases?: HostAlias[]
  dnsPolicy?: 'None'
  dnsConfig?: { nameservers: string[] }
  automountServiceAccountToken: boolean
  serviceAccountName?: string
  imagePullSecrets?: { name: string }[]
  securityContext: Record<string, unknown>
  tolerations: Record<string, unknown>[]
  containers: Container[]
  volumes: Record<string, unknown>[]
}

interface Container {
  name: string
  image: string
  imagePullPolicy: 'IfNotPresent'
  command: string[]
  args: string[]
  env: { name: string; value: string }[]
  workingDir: string
  resources: { requests: Record<string, string>; limits: Record<string, string> }
  securityContext: Record<string, unknown>
  terminationMessagePath?: string
  terminationMessagePolicy?: string
  volumeMounts: { name: string; mountPath: string; readOnly?: boolean }[]
}
