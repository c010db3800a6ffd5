import { createHash } from 'node:crypto'
import type { JobSpec } from '../runtime.ts'
import { podSpec } from './pod-spec.ts'
import type { HostAlias, PodSpec } from './pod-spec.ts'

/** By these, an agent finds everything of its own in a namespace that others may use too. */
export const LABELS = { agent: 'tenon.agent', network: 'tenon.network' } as const
/** Ids of jobs may be longer than a label. */
export const ANNOTATIONS = { job: 'tenon.job', fence: 'tenon.fence' } as const

/** Scheduling and pulling count towards the deadline of a Job, and so does the wait for an agent that is away. */
const START_SECONDS = 900

export interface JobParts {
  spec: JobSpec
  agentKey: string
  image: string
  /** The program of the image, for specs that name none. */
  command: string[]
  workBytes: number
  /** How long an ended job waits for an agent that reads its log. */
  keepSeconds: number
  hasPullSecret: boolean
  hostAliases?: HostAlias[] | undefined
}

/** Pure: the same job always has the same name, so that a second start finds the first. */
export function jobName(agentKey: string, jobId: string): string {
  const hash = createHash('sha256').update(`${agentKey}\n${jobId}`).digest('hex').slice(0, 12)
  const readable = jobId
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(-30)
    .replaceAll(/^-+|-+$/g, '')
  return ['tenon', readable, hash].filter((part) => part !== '').join('-')
}

/** Pure: the body of the Job. It belongs to nobody: a job outlives its agent. Nothing in it is secret. */
export function buildJob(parts: JobParts): JobObject {
  const { spec, agentKey } = parts
  const { timeoutSeconds, graceSeconds } = spec.limits
  const labels = { [LABELS.agent]: agentKey, [LABELS.network]: spec.network }
  const annotations = { [ANNOTATIONS.job]: spec.jobId, [ANNOTATIONS.fence]: String(spec.fence) }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: jobName(agentKey, spec.jobId), labels, annotations },
    spec: {
      backoffLimit: 0,
      completions: 1,
      parallelism: 1,
      // Never a second pod: not beside one that is still going, and not after a drain. Clusters too old for it ignore it.
      podReplacementPolicy: 'Failed',
      podFailurePolicy: {
        rules: [{ action: 'FailJob', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] }],
      },
      activeDeadlineSeconds: START_SECONDS + timeoutSeconds + graceSeconds + parts.keepSeconds,
      template: {
        metadata: {
          labels,
          annotations: { ...annotations, 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false' },
        },
        spec: podSpec({ ...parts, name: jobName(agentKey, spec.jobId) }),
      },
    },
  }
}

/** Pure: the job's files, in the order of their names in the spec. */
export function buildFilesSecret(name: string, labels: Labels, files: Record<string, string>): SecretObject {
  const contents = Object.values(files).map((text, index) => [String(index), base64(text)] as const)
  return secret(name, labels, 'Opaque', Object.fromEntries(contents))
}

/** Pure: a login of the registry that the job's image comes from, for the kubelet. */
export function buildPullSecret(
  job: string,
  labels: Labels,
  host: string,
  login: { username: string; password: string },
): SecretObject {
  const auth = base64(`${login.username}:${login.password}`)
  const config = JSON.stringify({ auths: { [host]: { ...login, auth } } })
  const data = { '.dockerconfigjson': base64(config) }
  return secret(pullSecretName(job), labels, 'kubernetes.io/dockerconfigjson', data)
}

export function pullSecretName(job: string): string {
  return `${job}-pull`
}

/** The kubelet keeps what cannot change: it does not miss the Secret of a running job that was deleted. */
function secret(name: string, labels: Labels, type: string, data: Record<string, string>): SecretObject {
  return { apiVersion: 'v1', kind: 'Secret', type, immutable: true, metadata: { name, labels }, data }
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

type Labels = Record<string, string>

export interface JobObject {
  apiVersion: 'batch/v1'
  kind: 'Job'
  metadata: { name: string; labels: Record<string, string>; annotations: Record<string, string> }
  spec: {
    backoffLimit: number
    completions: number
    parallelism: number
    podReplacementPolicy: 'Failed'
    podFailurePolicy: {
      rules: { action: 'FailJob'; onPodConditions: { type: string; status: 'True' }[] }[]
    }
    activeDeadlineSeconds: number
    template: {
      metadata: { labels: Record<string, string>; annotations: Record<string, string> }
      spec: PodSpec
    }
  }
}

export interface SecretObject {
  apiVersion: 'v1'
  kind: 'Secret'
  type: string
  immutable: true
  metadata: { name: string; labels: Labels }
  data: Record<string, string>
}
