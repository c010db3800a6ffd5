import type { JobKind, JobManifest, NetworkMode } from '@tenon/core'
import type { NetworkLimits } from '../egress/network.ts'
import type { RegistrySettings } from '../ground/registry-access.ts'
import { demandsWalls } from '../jobs/spec.ts'
import type { Services } from '../runtime/services.ts'
import { JobApiError } from './answer.ts'
import type { ServiceAccess } from './route.ts'

export interface ServiceAccessContext {
  services: Services
  /** The install's own, from which the engine pulls. */
  registry: RegistrySettings | undefined
  limits: NetworkLimits | undefined
}

/** What a job may do with the service of a component: which image runs is said by its manifest alone. */
export function createServiceAccess(
  { services, registry, limits }: ServiceAccessContext,
  manifest: JobManifest,
): ServiceAccess {
  const wanted = (component: string, spec: Parameters<ServiceAccess['bring']>[1]) => ({
    ...spec,
    image: imageOf(manifest, component, registry),
  })
  return {
    async look(component, mayProbe) {
      if (mayProbe) await services.admit(manifest.jobId)
      return services.look(component)
    },
    compare: (component, spec) => services.compare(component, wanted(component, spec)),
    async bring(component, spec) {
      if (demandsWalls(manifest.kind, limits)) throw walledOff(manifest.kind, limits?.[manifest.kind])
      return services.bring(component, wanted(component, spec), manifest.jobId)
    },
    settle: (component, keep) => services.settle(component, keep),
    remove: (component) => services.remove(component),
    logs: (component, lines) => services.logs(component, lines),
  }
}

/** Before anything is pulled or started: the engine would let the job to its services only after that. */
function walledOff(kind: JobKind, limit: NetworkMode | undefined): JobApiError {
  return new JobApiError(
    'forbidden',
    `The customer keeps this job out of the engine's network (TENON_JOB_NETWORKS has ${kind}=${limit}), where it would probe what it brings up.`,
    `Have the customer take ${kind} out of TENON_JOB_NETWORKS of the agent, or run the component elsewhere.`,
  )
}

/** Pure: by digest, as the install's registry is called by the engine. */
export function imageOf(
  manifest: JobManifest,
  component: string,
  registry: RegistrySettings | undefined,
): string {
  const operation = manifest.operations.find((each) => each.component === component)
  const artifact = operation?.artifacts.find(({ name }) => name === 'artifact')
  if (artifact === undefined) {
    const message = `This job's manifest names no image of ${component}.`
    throw new JobApiError('forbidden', message, 'Build the component, then deploy that build.')
  }
  if (registry === undefined) {
    const message = 'This install has no registry that an image could come from.'
    throw new JobApiError(
      'unsupported',
      message,
      'Set TENON_REGISTRY_URL and TENON_REGISTRY_KEY_FILE of the agent.',
    )
  }
  const host = registry.nodeAddress ?? new URL(registry.url).host
  return `${host}/${artifact.repository}@${artifact.digest}`
}
