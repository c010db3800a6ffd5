import type {
  BroughtService,
  ServiceChoice,
  ServiceComparison,
  ServiceLogs,
  ServiceSpec,
  ServiceState,
} from '@tenon/protocol'

/**
 * Components that run on the agent's own engine and outlive jobs and agent. Everything known of one lies on the engine,
 * so that a new life of the agent finds it. Each call may be repeated; those on one component follow each other.
 */
export interface Services {
  look(component: string): Promise<ServiceState>
  compare(component: string, wanted: WantedService): Promise<ServiceComparison>
  /** A new generation beside the one that runs; what an earlier attempt left is removed first. */
  bring(component: string, wanted: WantedService, jobId: string): Promise<BroughtService>
  /** `new`: it gets the component's name in the network, then the old one is stopped. `old`: the new one is removed. */
  settle(component: string, keep: ServiceChoice): Promise<ServiceState>
  remove(component: string): Promise<void>
  logs(component: string, lines: number): Promise<ServiceLogs>
  /** Lets a running job reach the replicas, so that it can probe them. */
  admit(jobId: string): Promise<void>
}

export interface WantedService extends ServiceSpec {
  /** By digest, from the install registry. */
  image: string
}

/** `image`: it cannot be had. `start`: the engine does not run it. `network`: the job cannot be let to it. */
export type ServiceErrorCode = 'image' | 'start' | 'network'

export class ServiceError extends Error {
  readonly code: ServiceErrorCode
  readonly remedy: string

  constructor(code: ServiceErrorCode, message: string, remedy: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'ServiceError'
    this.code = code
    this.remedy = remedy
  }
}
