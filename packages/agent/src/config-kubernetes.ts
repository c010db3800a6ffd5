import type { JobKind } from '@tenon/core'
import path from 'node:path'
import { z } from 'zod'
import { byKind, type KindSetting } from './config-kinds.ts'
import type { AgentError } from './ground/errors.ts'

export interface KubernetesConfig {
  /** Absent: the service account of the agent's own pod. */
  kubeconfig: string | undefined
  serviceHost: string | undefined
  servicePort: string | undefined
  /** Where jobs run. */
  namespace: string
  agentKey: string | undefined
  image: string
  workBytes: number | undefined
  scheduleSeconds: number | undefined
  keepSeconds: number | undefined
  /** By kind of job. */
  serviceAccounts: Partial<Record<JobKind, string>>
  /** The address by which jobs reach the agent, and where it listens for that. */
  api: { url: string; host: string; port: number }
}

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/

export const kubernetesFields = {
  kubeconfig: z.string().min(1).optional().catch(undefined),
  kubernetesNamespace: z.string().max(63).regex(DNS_LABEL, 'must be the name of a namespace').optional(),
  kubernetesAgentKey: z.string().max(63).regex(DNS_LABEL, 'must be usable as a label').optional(),
  kubernetesScheduleSeconds: z.coerce.number().min(0).max(3600).optional(),
  kubernetesKeepSeconds: z.coerce.number().int().min(60).max(2_592_000).optional(),
  kubernetesServiceAccounts: z.string().optional(),
  jobApiUrl: z.url({ protocol: /^https$/, error: 'must be an https address' }).optional(),
  jobApiListen: z
    .string()
    .regex(/^\S+:\d{1,5}$/, 'must be an address and a port')
    .default('0.0.0.0:8443'),
}

type Fields = z.infer<z.ZodObject<typeof kubernetesFields>> & { workBytes?: number | undefined }

/** Pure but for the environment that it is handed. */
export function kubernetesConfig(
  value: Fields,
  image: string,
  env: Record<string, string | undefined>,
  bad: (message: string) => AgentError,
): KubernetesConfig {
  const { kubernetesNamespace: namespace, jobApiUrl, jobApiListen, kubeconfig } = value
  if (namespace === undefined) throw bad('TENON_KUBERNETES_NAMESPACE is needed: where jobs run')
  if (jobApiUrl === undefined) throw bad('TENON_JOB_API_URL is needed: how jobs reach this agent')
  const at = jobApiListen.lastIndexOf(':')
  return {
    kubeconfig: kubeconfig === undefined ? undefined : path.resolve(kubeconfig),
    serviceHost: env['KUBERNETES_SERVICE_HOST'],
    servicePort: env['KUBERNETES_SERVICE_PORT'],
    namespace,
    agentKey: value.kubernetesAgentKey,
    image,
    workBytes: value.workBytes,
    scheduleSeconds: value.kubernetesScheduleSeconds,
    keepSeconds: value.kubernetesKeepSeconds,
    serviceAccounts: byKind(value.kubernetesServiceAccounts ?? '', SERVICE_ACCOUNTS, bad),
    api: {
      url: jobApiUrl,
      host: jobApiListen.slice(0, at).replaceAll(/^\[|\]$/g, ''),
      port: Number(jobApiListen.slice(at + 1)),
    },
  }
}

const SERVICE_ACCOUNTS: KindSetting<string> = {
  variable: 'TENON_KUBERNETES_SERVICE_ACCOUNTS',
  form: 'ACCOUNT',
  isValue: (text): text is string => /^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/.test(text),
}
