import {
  broughtService,
  serviceComparison,
  serviceLogs,
  serviceState,
  type BroughtService,
  type ServiceChoice,
  type ServiceComparison,
  type ServiceLogs,
  type ServiceSpec,
  type ServiceState,
} from '@tenon/protocol'
import { z } from 'zod'

/** The service of one component of the manifest, on the agent's own engine. */
export interface ServiceApi {
  look(): Promise<ServiceState>
  compare(spec: ServiceSpec): Promise<ServiceComparison>
  /** Beside what runs; `settle` says which of the two stays. The image is that of the manifest. */
  bring(spec: ServiceSpec): Promise<BroughtService>
  /** Done even by a job that was told to stop: two generations must not stay. */
  settle(keep: ServiceChoice): Promise<ServiceState>
  remove(): Promise<void>
  logs(lines: number): Promise<ServiceLogs>
}

export interface ServiceCall {
  method: string
  path: string
  body?: unknown
  timeoutMs: number
}

/** An image may have to be pulled first, and what stops has its grace. */
const CHANGE_TIMEOUT_MS = 900_000
const LOOK_TIMEOUT_MS = 60_000

export function createServiceApi(
  component: string,
  ask: <T>(call: ServiceCall, schema: z.ZodType<T>) => Promise<T>,
  askUnstoppably: <T>(call: ServiceCall, schema: z.ZodType<T>) => Promise<T>,
): ServiceApi {
  const path = (more = '') => `/v1/service${more}?component=${encodeURIComponent(component)}`
  const [timeoutMs, changing] = [LOOK_TIMEOUT_MS, CHANGE_TIMEOUT_MS]
  return {
    look: () => ask({ method: 'GET', path: path(), timeoutMs }, serviceState),
    compare: (body) => ask({ method: 'POST', path: path('/compare'), body, timeoutMs }, serviceComparison),
    bring: (body) => ask({ method: 'PUT', path: path(), body, timeoutMs: changing }, broughtService),
    settle: (keep) =>
      askUnstoppably(
        { method: 'POST', path: path('/settle'), body: { keep }, timeoutMs: changing },
        serviceState,
      ),
    remove: async () => {
      await ask({ method: 'DELETE', path: path(), timeoutMs: changing }, z.unknown())
    },
    logs: (lines) => ask({ method: 'GET', path: `${path('/logs')}&tail=${lines}`, timeoutMs }, serviceLogs),
  }
}
