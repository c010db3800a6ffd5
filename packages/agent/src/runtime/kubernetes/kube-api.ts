import { z } from 'zod'
import { kept } from '../../ground/kept.ts'
import type { JobObject, SecretObject } from './job-manifest.ts'
import { openAccess } from './kube-access.ts'
import type { KubeAccess } from './kube-access.ts'
import { isKube } from './kube-error.ts'
import type { KubeErrorCode } from './kube-error.ts'
import { execInPod } from './kube-exec.ts'
import type { ExecTarget, PodExec } from './kube-exec.ts'
import { createKubeHttp } from './kube-http.ts'
import type { KubeHttp } from './kube-http.ts'

const texts = z.record(z.string(), z.string())
const metadataSchema = z.object({
  name: z.string(),
  uid: z.string(),
  labels: texts.default({}),
  annotations: texts.default({}),
  deletionTimestamp: z.string().optional(),
  ownerReferences: z.array(z.object({ uid: z.string() })).default([]),
})
const words = { reason: z.string().optional(), message: z.string().optional() }
const containerSchema = z.object({
  name: z.string(),
  state: z
    .object({
      waiting: z.object(words).optional(),
      running: z.object({}).optional(),
      terminated: z.object({ ...words, exitCode: z.number() }).optional(),
    })
    .default({}),
})
export const podSchema = z.object({
  metadata: metadataSchema,
  spec: z.object({ nodeName: z.string().optional() }).default({}),
  status: z
    .object({
      ...words,
      phase: z.string().optional(),
      conditions: z.array(z.object({ ...words, type: z.string(), status: z.string() })).default([]),
      containerStatuses: z.array(containerSchema).default([]),
    })
    .default({ conditions: [], containerStatuses: [] }),
})
export type Pod = z.infer<typeof podSchema>

const jobSchema = z.object({ metadata: metadataSchema })
export type KubeJob = z.infer<typeof jobSchema>

const eventSchema = z.object({
  count: z.number().optional(),
  reason: z.string().optional(),
  message: z.string().optional(),
})
export type KubeEvent = z.infer<typeof eventSchema>

const reviewSchema = z.object({ status: z.object({ userInfo: z.object({ username: z.string() }) }) })

const list = <T>(schema: z.ZodType<T>) =>
  z.object({ metadata: z.object({ resourceVersion: z.string() }), items: z.array(schema) })
const watchSchema = z.object({ type: z.string(), object: z.unknown() })

export type PodChange =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; pod: Pod; version: string | undefined }
  | { type: 'BOOKMARK' | 'ERROR'; version: string | undefined }

/** What jobs need of one namespace of a cluster, and nothing more: see the chart's role. */
export interface KubeApi {
  version(): Promise<string>
  /** As whom the agent is known there; undefined where the cluster does not say. */
  whoAmI(): Promise<string | undefined>
  createJob(job: JobObject): Promise<KubeJob>
  getJob(name: string): Promise<KubeJob | undefined>
  listJobs(selector: string): Promise<KubeJob[]>
  /** Its pods go with it, each after its own grace. One that is gone is fine. */
  deleteJob(name: string): Promise<void>
  createSecret(secret: SecretObject): Promise<void>
  deleteSecret(name: string): Promise<void>
  listPods(selector: string): Promise<{ pods: Pod[]; version: string }>
  watchPods(selector: string, version: string, signal: AbortSignal): AsyncIterable<PodChange>
  /** Newest last, of one object. */
  events(kind: 'Job' | 'Pod', name: string): Promise<KubeEvent[]>
  exec(target: Omit<ExecTarget, 'namespace'>): Promise<PodExec>
}

/** A watch is ended by the server after this; bookmarks come about once a minute. */
const WATCH_SECONDS = 240
const WATCH_SILENCE_MILLISECONDS = 150_000

export interface KubeSettings {
  /** Absent: the service account of the agent's own pod. */
  kubeconfig?: string | undefined
  serviceHost?: string | undefined
  servicePort?: string | undefined
  namespace: string
}

export function createKubeApi(settings: KubeSettings): KubeApi {
  const { namespace } = settings
  const http = kept(async () => {
    const env = { host: settings.serviceHost, port: settings.servicePort }
    const access: KubeAccess = await openAccess(settings.kubeconfig, env)
    return createKubeHttp(access)
  })
  const ask = async <T>(schema: z.ZodType<T>, call: Parameters<KubeHttp['ask']>[1]) =>
    (await http()).ask(schema, call)
  const jobs = `/apis/batch/v1/namespaces/${namespace}/jobs`
  const core = `/api/v1/namespaces/${namespace}`
  const remove = async (path: string, query: Record<string, string> = {}) => {
    await orAbsent(ask(z.unknown(), { method: 'DELETE', path, query }))
  }
  return {
    async version() {
      const { gitVersion } = await ask(z.object({ gitVersion: z.string() }), {
        method: 'GET',
        path: '/version',
      })
      return gitVersion.replace(/^v/, '')
    },
    async whoAmI() {
      const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' }
      const path = `/apis/${body.apiVersion}/selfsubjectreviews`
      const asked = ask(reviewSchema, { method: 'POST', path, body })
      return (await orAbsent(asked, ['not_found', 'forbidden']))?.status.userInfo.username
    },
    createJob: (job) => ask(jobSchema, { method: 'POST', path: jobs, body: job }),
    getJob: (name) => orAbsent(ask(jobSchema, { method: 'GET', path: `${jobs}/${name}` })),
    async listJobs(selector) {
      const query = { labelSelector: selector }
      return (await ask(list(jobSchema), { method: 'GET', path: jobs, query })).items
    },
    deleteJob: (name) => remove(`${jobs}/${name}`, { propagationPolicy: 'Background' }),
    async createSecret(secret) {
      await ask(z.unknown(), { method: 'POST', path: `${core}/secrets`, body: secret })
    },
    deleteSecret: (name) => remove(`${core}/secrets/${name}`),
    async listPods(selector) {
      const query = { labelSelector: selector }
      const found = await ask(list(podSchema), { method: 'GET', path: `${core}/pods`, query })
      return { pods: found.items, version: found.metadata.resourceVersion }
    },
    watchPods: (selector, version, signal) => watchPods(http, `${core}/pods`, { selector, version, signal }),
    async events(kind, name) {
      const query = { fieldSelector: `involvedObject.kind=${kind},involvedObject.name=${name}` }
      return (await ask(list(eventSchema), { method: 'GET', path: `${core}/events`, query })).items
    },
    exec: async (target) => execInPod((await http()).access, { ...target, namespace }),
  }
}

async function* watchPods(
  http: () => Promise<KubeHttp>,
  path: string,
  { selector, version, signal }: { selector: string; version: string; signal: AbortSignal },
): AsyncGenerator<PodChange> {
  const query = {
    watch: 'true',
    labelSelector: selector,
    resourceVersion: version,
    allowWatchBookmarks: 'true',
    timeoutSeconds: String(WATCH_SECONDS),
  }
  const call = { method: 'GET' as const, path, query, signal }
  const lines = (await http()).lines({ ...call, silenceMilliseconds: WATCH_SILENCE_MILLISECONDS })
  for await (const line of lines) {
    if (line.trim() !== '') yield changeOf(line)
  }
}

function changeOf(line: string): PodChange {
  const { type, object } = watchSchema.parse(JSON.parse(line))
  const version = z.object({ metadata: z.object({ resourceVersion: z.string() }) }).safeParse(object).data
    ?.metadata.resourceVersion
  if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED') {
    return { type, pod: podSchema.parse(object), version }
  }
  return { type: type === 'BOOKMARK' ? 'BOOKMARK' : 'ERROR', version }
}

async function orAbsent<T>(
  asked: Promise<T>,
  codes: KubeErrorCode[] = ['not_found'],
): Promise<T | undefined> {
  return asked.catch((error: unknown) => {
    if (isKube(error, ...codes)) return undefined
    throw error
  })
}
