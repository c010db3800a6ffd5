import type { Json } from '@tenon/core'
import { z } from 'zod'
import { isPluginError, PluginError } from '../sdk/errors.ts'
import type { OperationResult, Plugin } from '../sdk/plugin.ts'
import { service, type ImageService, type Service } from './image-service.ts'
import { imageOutputs, nodeRegistry, type ImageOutputs } from './images.ts'
import { componentOperation, type Work } from './operation.ts'
import { countChanges, planAnswer, planOf } from './plan.ts'
import { evaluatePolicies } from './policies.ts'
import { serviceOnEngine } from './service-on-engine.ts'
import { serviceOnKubernetes } from './service-on-kubernetes.ts'

const imageConfig = z.looseObject({ service: service.exactOptional() })
type ImageConfig = z.infer<typeof imageConfig>

/** An image of the install: others refer to it, and with `[service]` it runs by itself, on Kubernetes or an engine. */
export const imageOperations: Required<
  Pick<Plugin['operations'], 'plan' | 'deploy' | 'destroy' | 'status' | 'logs' | 'debug'>
> = {
  plan: componentOperation(imageConfig, async (work) => {
    const running = serviceOf(work)
    if (running) return running.plan()
    const { digest, reference } = imageOf(work)
    const hasChanges = (await givenDigest(work)) !== digest
    const findings = evaluatePolicies(work.config.policies, {
      plan: { changes: [], counts: countChanges([]), hasChanges },
      resources: [],
      images: [reference],
      component: { name: work.name, type: work.config.type },
    })
    return planAnswer(planOf({ digest: null, hasChanges, healthy: null, changes: [], findings }, work.masker))
  }),
  deploy: componentOperation(imageConfig, async (work): Promise<OperationResult> => {
    const image = imageOf(work)
    const outputs = { image: { sensitive: false, value: image as unknown as Json } }
    const done = await serviceOf(work)?.deploy()
    if (done) return done.ok ? { ...done, outputs: { ...done.outputs, ...outputs } } : done
    const message = `The image is ${image.reference}.`
    return { ok: true, message, data: { image: image.reference }, outputs }
  }),
  status: componentOperation(imageConfig, async (work): Promise<OperationResult> => {
    const running = serviceOf(work)
    if (running) return running.status()
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
      // An engine is asked in any case: the component may have been a service before.
      const running = serviceOf(work) ?? (isOnEngine(work) ? onEngine(work, service.parse({})) : undefined)
      if (running) return running.destroy()
      return { ok: true, message: 'An image by itself leaves nothing to remove.', data: {} }
    },
    ['service.namespace'],
  ),
  logs: componentOperation(imageConfig, async (work) => serviceOf(work)?.logs() ?? runsNothing(work), [
    'service.namespace',
  ]),
  debug: componentOperation(imageConfig, async (work) => serviceOf(work)?.debug() ?? runsNothing(work), [
    'service.namespace',
  ]),
}

function serviceOf(work: Work<ImageConfig>): ImageService | undefined {
  const { service: wanted } = work.component
  if (wanted === undefined) return undefined
  if (isOnEngine(work)) return onEngine(work, wanted)
  return serviceOnKubernetes({ work, wanted, image: () => imageOf(work) })
}

/** A cluster that was lent to the install's jobs goes first: then it is where the app runs. */
function isOnEngine({ job }: Work<ImageConfig>): boolean {
  return job.kubeconfig === undefined && job.hasServices === true
}

function onEngine(work: Work<ImageConfig>, wanted: Service): ImageService {
  return serviceOnEngine({ work, wanted, image: () => imageOf(work) })
}

function runsNothing({ name }: Work<ImageConfig>): OperationResult {
  const message = `${name} is an image that others use, and runs nothing itself. Ask a component that uses it.`
  return { ok: false, message, data: {} }
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
