import { createHash } from 'node:crypto'
import type { Json } from '@tenon/core'
import { z } from 'zod'
import { openCluster } from '../kubernetes/cluster.ts'
import {
  deployObjects,
  destroyObjects,
  planObjects,
  statusOfObjects,
  type Target,
} from '../kubernetes/component.ts'
import { kubeObject, type KubeObject } from '../kubernetes/objects.ts'
import { isPluginError, PluginError } from '../sdk/errors.ts'
import type { OperationResult, Plugin } from '../sdk/plugin.ts'
import type { Closed } from './closure.ts'
import { imageOutputs, nodeRegistry, type ImageOutputs } from './images.ts'
import { componentOperation, type Work } from './operation.ts'
import { planAnswer, planOf } from './plan.ts'

const service = z.looseObject({
  namespace: z.string().default(''),
  replicas: z.coerce.number().int().min(0).max(1000).default(1),
  port: z.coerce.number().int().min(1).max(65_535).default(8080),
  health_path: z.string().startsWith('/').exactOptional(),
  command: z.array(z.string()).exactOptional(),
  env: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).default({}),
})
const imageConfig = z.looseObject({ service: service.exactOptional() })
type ImageConfig = z.infer<typeof imageConfig>
type Service = z.infer<typeof service>

/** An image of the install: others refer to it, and with `[service]` it runs by itself on Kubernetes. */
export const imageOperations: Required<Pick<Plugin['operations'], 'plan' | 'deploy' | 'destroy' | 'status'>> =
  {
    plan: componentOperation(imageConfig, async (work) => {
      const { service: wanted } = work.component
      if (wanted) return planObjects(await targetOf(work, wanted), serviceObjects(work, wanted))
      const hasChanges = (await givenDigest(work)) !== imageOf(work).digest
      return planAnswer(
        planOf({ digest: null, hasChanges, healthy: null, changes: [], findings: [] }, work.masker),
      )
    }),
    deploy: componentOperation(imageConfig, async (work): Promise<OperationResult> => {
      const image = imageOf(work)
      const outputs = { image: { sensitive: false, value: image as unknown as Json } }
      const { service: wanted } = work.component
      if (!wanted)
        return {
          ok: true,
          message: `The image is ${image.reference}.`,
          data: { image: image.reference },
          outputs,
        }
      const target = await targetOf(work, wanted)
      const done = await deployObjects(target, async () => serviceObjects(work, wanted))
      const host = `${objectName(work)}.${target.namespace}.svc`
      const more = { host: { sensitive: false, value: host }, port: { sensitive: false, value: wanted.port } }
      return done.ok ? { ...done, outputs: { ...done.outputs, ...outputs, ...more } } : done
    }),
    status: componentOperation(imageConfig, async (work): Promise<OperationResult> => {
      const { service: wanted } = work.component
      if (wanted) return statusOfObjects(await targetOf(work, wanted), serviceObjects(work, wanted))
      const isDrifted = (await givenDigest(work)) !== imageOf(work).digest
      return {
        ok: true,
        message: `The image is ${imageOf(work).reference}.`,
        data: { healthy: null, isDrifted },
      }
    }),
    destroy: componentOperation(
      imageConfig,
      async (work): Promise<OperationResult> => {
        const { service: wanted } = work.component
        if (wanted) return destroyObjects(await targetOf(work, wanted))
        return { ok: true, message: 'An image by itself leaves nothing to remove.', data: {} }
      },
      ['service.namespace'],
    ),
  }

async function targetOf(work: Work<ImageConfig>, { namespace }: Service): Promise<Target> {
  return {
    work,
    cluster: await openCluster(work),
    namespace: namespace === '' ? work.config.install.name : namespace,
  }
}

function imageOf(work: Work<ImageConfig>): ImageOutputs {
  const artifact = work.operation.artifacts.find(({ name }) => name === 'artifact')
  if (artifact) return imageOutputs(nodeRegistry(work.job), artifact)
  throw new PluginError(
    'artifact_missing',
    'The manifest names no image.',
    'Build the component, then deploy that build.',
  )
}

/** What the last deploy gave to other components. */
async function givenDigest(work: Work<ImageConfig>): Promise<unknown> {
  try {
    const { image } = await work.api.outputs(work.name)
    return (image?.value as { digest?: unknown } | undefined)?.digest
  } catch (error) {
    if (isPluginError(error) && error.code === 'job_api_refused') return undefined
    throw error
  }
}

/** The environment may hold secrets, so it is a Secret; what depends on it starts anew when it changes. */
function serviceObjects(work: Work<ImageConfig>, wanted: Service): Closed {
  const { reference } = imageOf(work)
  const name = objectName(work)
  const labels = { 'app.kubernetes.io/name': name, 'app.kubernetes.io/managed-by': 'tenon' }
  const env = Object.fromEntries(Object.entries(wanted.env).map(([key, value]) => [key, String(value)]))
  const fingerprint = createHash('sha256').update(JSON.stringify(env)).digest('hex')
  work.masker.add(fingerprint)
  const probe = {
    httpGet: { path: wanted.health_path, port: wanted.port },
    periodSeconds: 2,
    failureThreshold: 3,
  }
  const container = {
    name: 'main',
    image: reference,
    ...(wanted.command === undefined ? {} : { command: wanted.command }),
    ports: [{ containerPort: wanted.port, protocol: 'TCP' }],
    envFrom: [{ secretRef: { name: `${name}-env` } }],
    ...(wanted.health_path === undefined ? {} : { readinessProbe: probe }),
  }
  const selector = { 'app.kubernetes.io/name': name }
  const annotations = { 'tenon.dev/environment': fingerprint }
  const template = { metadata: { labels, annotations }, spec: { containers: [container] } }
  const metadata = { name, labels }
  const ports = [{ port: wanted.port, targetPort: wanted.port, protocol: 'TCP' }]
  const objects = [
    { apiVersion: 'v1', kind: 'Secret', metadata: { name: `${name}-env`, labels }, stringData: env },
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { selector, ports } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: { replicas: wanted.replicas, selector: { matchLabels: selector }, template },
    },
  ]
  return { objects: objects.map((object) => kubeObject.parse(object) as KubeObject), images: [reference] }
}

function objectName(work: Work<ImageConfig>): string {
  return work.name.replaceAll('_', '-')
}
