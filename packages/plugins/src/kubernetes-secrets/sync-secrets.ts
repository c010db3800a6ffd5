import { z } from 'zod'
import { componentOperation, type Work } from '../deploy/operation.ts'
import { findAccess } from '../kubernetes/access.ts'
import { openCluster, refused, type Cluster } from '../kubernetes/cluster.ts'
import { ensureNamespace, leaveNamespace } from '../kubernetes/namespace.ts'
import { kubeObject, listOf, type KubeObject } from '../kubernetes/objects.ts'
import { isPluginError, PluginError } from '../sdk/errors.ts'
import type { OperationResult } from '../sdk/plugin.ts'

const placeName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/, 'must be a name as Kubernetes has them')
const target = z.looseObject({
  secret: z.string(),
  required: z.boolean(),
  /** The value is base64; the cluster gets what it decodes to. */
  isEncoded: z.boolean(),
  namespace: placeName,
  name: placeName,
  key: z.string().regex(/^[-._a-zA-Z0-9]{1,253}$/, 'must be a key of a Kubernetes Secret'),
})
const config = z.looseObject({ targets: z.array(target).max(2000) })
type Config = z.infer<typeof config>

/** On what is ours: the id of the install it belongs to. */
const MARK = 'tenon.dev/secret-of'

export const deploy = componentOperation(config, async (work): Promise<OperationResult> => {
  if (!(await hasCluster(work))) return noCluster(work)
  const cluster = await openCluster(work)
  const wanted = await wantedSecrets(work)
  for (const namespace of new Set(wanted.map(placeOf))) await ensureNamespace(cluster, namespace, work.name)
  for (const secret of wanted) await refuseForeign(work, cluster, secret)
  if (wanted.length > 0) {
    const args = ['apply', '--server-side', '--force-conflicts', '--field-manager=tenon-secrets', '-f', '-']
    await cluster.must(args, listOf(wanted))
  }
  const gone = (await ours(work, cluster)).filter((each) => !wanted.some((one) => isSame(one, each)))
  await remove(cluster, gone)
  const names = wanted.map((secret) => `${placeOf(secret)}/${secret.metadata.name}`)
  const left = gone.length === 0 ? '' : ` Removed ${gone.length} that no secret asks for any more.`
  const message = names.length === 0 ? 'No secret has a value yet.' : `Synced ${names.join(', ')}.`
  return {
    ok: true,
    message: `${message}${left}`,
    data: { secrets: names.slice(0, 200), removed: gone.length },
  }
})

export const destroy = componentOperation(config, async (work): Promise<OperationResult> => {
  if (!(await hasCluster(work))) return noCluster(work)
  const cluster = await openCluster(work)
  const there = await ours(work, cluster)
  await remove(cluster, there)
  const places = [...work.component.targets.map(({ namespace }) => namespace), ...there.map(placeOf)]
  for (const namespace of new Set(places)) await leaveNamespace(cluster, namespace, work.name)
  return { ok: true, message: `Removed ${there.length} Kubernetes secrets.`, data: {} }
})

async function hasCluster(work: Work<Config>): Promise<boolean> {
  return (await findAccess(work)) !== 'none'
}

function noCluster({ component }: Work<Config>): OperationResult {
  const names = [...new Set(component.targets.map(({ secret }) => secret))].join(', ')
  const message = `This install has no cluster, so nothing was done for the secrets that are kept in one: ${names}.`
  return { ok: true, message, data: {} }
}

/** Several targets may share one Kubernetes Secret, each with its own key. */
async function wantedSecrets(work: Work<Config>): Promise<KubeObject[]> {
  const secrets = new Map<string, { namespace: string; name: string; data: Record<string, string> }>()
  for (const { secret, required, isEncoded, namespace, name, key } of work.component.targets) {
    const value = await valueOf(work, secret)
    if (value === undefined) {
      if (required) throw missing(secret)
      continue
    }
    const place = `${namespace}/${name}`
    const known = secrets.get(place) ?? { namespace, name, data: {} }
    if (Object.hasOwn(known.data, key)) throw twice(place, key)
    known.data[key] = isEncoded ? decoded(secret, value) : Buffer.from(value).toString('base64')
    secrets.set(place, known)
  }
  return [...secrets.values()].map(({ namespace, name, data }) => {
    const labels = { 'app.kubernetes.io/managed-by': 'tenon', [MARK]: work.config.install.id }
    return kubeObject.parse({
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'Opaque',
      metadata: { name, namespace, labels },
      data,
    }) as KubeObject
  })
}

async function valueOf(work: Work<Config>, name: string): Promise<string | undefined> {
  try {
    return await work.api.secret(name)
  } catch (error) {
    if (isPluginError(error) && error.code === 'job_api_refused') return undefined
    throw error
  }
}

/** In the form that Kubernetes reads, whatever line breaks it came with. */
function decoded(secret: string, value: string): string {
  const text = value.replaceAll(/\s/g, '')
  const bytes = Buffer.from(text, 'base64')
  if (bytes.toString('base64').replaceAll('=', '') === text.replaceAll('=', ''))
    return bytes.toString('base64')
  const message = `The secret ${secret} has the format base64, and its value is not base64.`
  throw new PluginError('config_invalid', message, 'Set it again, encoded in base64.')
}

function twice(place: string, key: string): PluginError {
  const message = `Two secrets are to be kept as ${key} of the Kubernetes secret ${place}.`
  return new PluginError('config_invalid', message, 'Give each of them a name or a key of its own.')
}

function missing(secret: string): PluginError {
  const message = `The install has no secret ${secret}, which is to be kept in the cluster.`
  return new PluginError('secret_missing', message, `Set it: tenon installs secrets set INSTALL ${secret}.`)
}

/** What somebody else made stays as it is: it would be gone with the install. */
async function refuseForeign(work: Work<Config>, cluster: Cluster, secret: KubeObject): Promise<void> {
  const { name } = secret.metadata
  const [there] = await cluster.get(['secret', name, '-n', placeOf(secret)])
  if (there === undefined || there.metadata.labels?.[MARK] === work.config.install.id) return
  const message = `The cluster has a secret ${placeOf(secret)}/${name} that is not this install's.`
  const remedy = 'Remove it, or give the secret of the app another kubernetes_secret_name.'
  throw new PluginError('cluster_refused', message, remedy)
}

/** All that earlier syncs of this install left; names alone, since values are not needed. */
async function ours(work: Work<Config>, cluster: Cluster): Promise<KubeObject[]> {
  const selector = `${MARK}=${work.config.install.id}`
  const columns = 'custom-columns=N:.metadata.namespace,M:.metadata.name'
  const look = ['get', 'secrets', '-l', selector, '--no-headers', '-o', columns]
  const everywhere = await cluster.kubectl([...look, '-A'])
  if (everywhere.code !== 0 && !/\(Forbidden\)/.test(everywhere.stderr)) throw refused('get', everywhere)
  const lists = everywhere.code === 0 ? [everywhere.stdout] : await inOwnNamespaces(work, cluster, look)
  return lists
    .join('\n')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .flatMap(([namespace, name]) => (namespace && name ? [secretAt(namespace, name)] : []))
}

/** An account that may not look everywhere looks where the app's secrets belong. */
async function inOwnNamespaces(work: Work<Config>, cluster: Cluster, look: string[]): Promise<string[]> {
  const places = [...new Set(work.component.targets.map(({ namespace }) => namespace))]
  cluster.log(`This account may not list secrets everywhere; looking in ${places.join(', ')}.`)
  return Promise.all(places.map(async (place) => cluster.must([...look, '-n', place])))
}

function secretAt(namespace: string, name: string): KubeObject {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name } }
}

async function remove(cluster: Cluster, secrets: readonly KubeObject[]): Promise<void> {
  for (const secret of secrets) {
    await cluster.must([
      'delete',
      'secret',
      secret.metadata.name,
      '-n',
      placeOf(secret),
      '--ignore-not-found',
    ])
  }
}

function placeOf({ metadata }: KubeObject): string {
  return metadata.namespace ?? 'default'
}

function isSame(a: KubeObject, b: KubeObject): boolean {
  return placeOf(a) === placeOf(b) && a.metadata.name === b.metadata.name
}
