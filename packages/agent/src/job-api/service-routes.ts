import type { JobKind } from '@tenon/core'
import { MAX_SERVICE_LOG_LINES, serviceChoice, serviceSpec } from '@tenon/protocol'
import { EngineError } from '../runtime/docker/engine-http.ts'
import { ServiceError } from '../runtime/services.ts'
import { JobApiError, readBody } from './answer.ts'
import { componentOf, type Call, type Route, type ServiceAccess } from './route.ts'

const LOG_LINES = 200
const READERS: readonly JobKind[] = ['plan', 'deploy', 'destroy', 'action', 'logs', 'debug']
/** These look at replicas from outside too; the others are let into no network for it. */
const PROBERS: readonly JobKind[] = ['plan', 'deploy', 'action']

/** A component's service on the agent's own engine. */
export const serviceRoutes: Route[] = [
  { method: 'GET', path: /^\/v1\/service$/, handle: getService },
  { method: 'PUT', path: /^\/v1\/service$/, handle: putService },
  { method: 'DELETE', path: /^\/v1\/service$/, handle: deleteService },
  { method: 'POST', path: /^\/v1\/service\/compare$/, handle: compareService },
  { method: 'POST', path: /^\/v1\/service\/settle$/, handle: settleService },
  { method: 'GET', path: /^\/v1\/service\/logs$/, handle: getLogs },
]

async function getService(call: Call): Promise<unknown> {
  const { services, component, kind } = placeOf(call, READERS)
  return told(services.look(component, PROBERS.includes(kind)))
}

async function compareService(call: Call): Promise<unknown> {
  const { services, component } = placeOf(call, READERS)
  return told(services.compare(component, await readBody(call.request, serviceSpec)))
}

async function putService(call: Call): Promise<unknown> {
  const { services, component } = placeOf(call, ['deploy'])
  return told(services.bring(component, await readBody(call.request, serviceSpec)))
}

async function settleService(call: Call): Promise<unknown> {
  const { services, component } = placeOf(call, ['deploy'])
  const { keep } = await readBody(call.request, serviceChoice)
  return told(services.settle(component, keep))
}

async function deleteService(call: Call): Promise<void> {
  const { services, component } = placeOf(call, ['destroy'])
  await told(services.remove(component))
}

async function getLogs(call: Call): Promise<unknown> {
  const { services, component } = placeOf(call, READERS)
  const lines = Number(call.query.get('tail') ?? LOG_LINES)
  if (Number.isSafeInteger(lines) && lines >= 0 && lines <= MAX_SERVICE_LOG_LINES) {
    return told(services.logs(component, lines))
  }
  const remedy = `Ask for 0 to ${MAX_SERVICE_LOG_LINES} lines.`
  throw new JobApiError('bad_request', '`tail` is no number of lines.', remedy)
}

function placeOf(
  { access, query }: Call,
  kinds: readonly JobKind[],
): { services: ServiceAccess; component: string; kind: JobKind } {
  const { kind } = access.manifest
  if (!kinds.includes(kind)) {
    const message = `A job of the kind ${kind} may not do this with a service.`
    throw new JobApiError('forbidden', message, `Do it in a job of the kind ${kinds.join(' or ')}.`)
  }
  const component = componentOf(access.manifest, query.get('component'))
  if (component === undefined) {
    const message = "This job's manifest names no component."
    throw new JobApiError('forbidden', message, 'Use services in jobs of a component.')
  }
  if (access.services) return { services: access.services, component, kind }
  throw new JobApiError(
    'unsupported',
    'This agent has no container engine of its own, so it runs no services.',
    'Run the agent with TENON_RUNTIME=docker, or lend its jobs a cluster with TENON_JOB_KUBECONFIG.',
  )
}

/** In the engine's own words; one that is away is asked again by the job. */
async function told<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    if (cause instanceof ServiceError) {
      throw new JobApiError('engine_failed', cause.message, cause.remedy, { cause })
    }
    if (!(cause instanceof EngineError)) throw cause
    const code = cause.code === 'unreachable' ? 'unavailable' : 'engine_failed'
    throw new JobApiError(code, cause.message, "Look at the engine's own log.", { cause })
  }
}
