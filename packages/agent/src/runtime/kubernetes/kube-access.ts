import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { KubeError } from './kube-error.ts'
import { parseYaml } from './simple-yaml.ts'

/** How the API server is reached, and as whom. */
export interface KubeAccess {
  server: string
  /** The namespace of the context or of the agent's own pod. */
  namespace: string
  tls: KubeTls
  /** Asked at each call: the token of a service account changes while the agent runs. */
  token(): Promise<string | undefined>
}

export interface KubeTls {
  ca?: string
  cert?: string
  key?: string
  rejectUnauthorized?: boolean
}

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'
/** A bound token lives an hour and is renewed by the kubelet long before. */
const TOKEN_MILLISECONDS = 30_000

/** With a file: that kubeconfig. Without: the service account of the pod that the agent runs in. */
export async function openAccess(
  kubeconfig: string | undefined,
  env: { host: string | undefined; port: string | undefined },
): Promise<KubeAccess> {
  if (kubeconfig !== undefined) return fromKubeconfig(kubeconfig)
  if (env.host === undefined || env.port === undefined) {
    throw new KubeError(
      'unreachable',
      'The agent runs in no pod and was given no kubeconfig. Set KUBECONFIG.',
    )
  }
  const read = (name: string) => readFile(path.join(SERVICE_ACCOUNT, name), 'utf8')
  const host = env.host.includes(':') ? `[${env.host}]` : env.host
  return {
    server: `https://${host}:${env.port}`,
    namespace: (await read('namespace')).trim(),
    tls: { ca: await read('ca.crt') },
    token: readAgain(path.join(SERVICE_ACCOUNT, 'token')),
  }
}

const cluster = z.object({
  server: z.string(),
  'certificate-authority': z.string().optional(),
  'certificate-authority-data': z.string().optional(),
  'insecure-skip-tls-verify': z.boolean().optional(),
})
const user = z.object({
  'client-certificate': z.string().optional(),
  'client-certificate-data': z.string().optional(),
  'client-key': z.string().optional(),
  'client-key-data': z.string().optional(),
  token: z.string().optional(),
  tokenFile: z.string().optional(),
  exec: z.unknown().optional(),
})
const context = z.object({ cluster: z.string(), user: z.string(), namespace: z.string().nullish() })
const kubeconfigSchema = z.object({
  'current-context': z.string().optional(),
  clusters: z.array(z.object({ name: z.string(), cluster })),
  users: z.array(z.object({ name: z.string(), user })),
  contexts: z.array(z.object({ name: z.string(), context })),
})

async function fromKubeconfig(file: string): Promise<KubeAccess> {
  const text = await readFile(file, 'utf8')
  const config = kubeconfigSchema.safeParse(parseKubeconfig(text))
  if (!config.success) throw unusable(file, 'it is not one', config.error)
  const { clusters, users, contexts, 'current-context': current } = config.data
  const chosen = contexts.find(({ name }) => name === current)?.context
  const place = clusters.find(({ name }) => name === chosen?.cluster)?.cluster
  const who = users.find(({ name }) => name === chosen?.user)?.user
  if (chosen === undefined || place === undefined || who === undefined) {
    throw unusable(file, 'its current context names no cluster and user')
  }
  if (who.exec !== undefined) {
    throw unusable(file, 'its user logs in by a program; use a token or a client certificate')
  }
  const dir = path.dirname(path.resolve(file))
  const part = async (data: string | undefined, name: string | undefined) => {
    if (data !== undefined) return Buffer.from(data, 'base64').toString('utf8')
    return name === undefined ? undefined : readFile(path.resolve(dir, name), 'utf8')
  }
  const [ca, cert, key] = await Promise.all([
    part(place['certificate-authority-data'], place['certificate-authority']),
    part(who['client-certificate-data'], who['client-certificate']),
    part(who['client-key-data'], who['client-key']),
  ])
  const { token, tokenFile } = who
  return {
    server: place.server.replace(/\/$/, ''),
    namespace: chosen.namespace ?? 'default',
    tls: {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      ...(place['insecure-skip-tls-verify'] === true ? { rejectUnauthorized: false } : {}),
    },
    token: tokenFile === undefined ? async () => token : readAgain(path.resolve(dir, tokenFile)),
  }
}

function parseKubeconfig(text: string): unknown {
  return text.trimStart().startsWith('{') ? (JSON.parse(text) as unknown) : parseYaml(text)
}

function readAgain(file: string): () => Promise<string> {
  let known: { text: string; until: number } | undefined
  return async () => {
    if (known === undefined || Date.now() > known.until) {
      known = { text: (await readFile(file, 'utf8')).trim(), until: Date.now() + TOKEN_MILLISECONDS }
    }
    return known.text
  }
}

function unusable(file: string, why: string, cause?: unknown): KubeError {
  return new KubeError('refused', `The kubeconfig ${file} is not usable: ${why}.`, { cause })
}
