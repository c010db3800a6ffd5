import type { IncomingMessage } from 'node:http'
import type { JobManifest } from '@tenon/core'
import type {
  AttestationRequest,
  BroughtService,
  jobOutputs,
  jobProgress,
  JobContext,
  JobCredential,
  JobResult,
  ServiceChoice,
  ServiceComparison,
  ServiceLogs,
  ServiceSpec,
  ServiceState,
  StateLock,
} from '@tenon/protocol'
import type { z } from 'zod'
import type { RelayedJob } from '../egress/relay.ts'
import type { ReportedOutputs } from '../journal/journal-state.ts'
import { JobApiError } from './answer.ts'

/** What the routes need of the agent, for one authenticated job. */
export interface JobAccess {
  readonly jobId: string
  readonly fence: number
  readonly manifest: JobManifest
  /** What was signed: a job may know more of it than this agent. */
  readonly manifestText: string
  /** What the relay may connect it to. */
  readonly egress: RelayedJob
  context(waitMs: number): Promise<JobContext>
  credential<W extends JobCredential['want']>(
    want: W,
    waitMs: number,
    artifact?: AttestationRequest,
  ): Promise<Extract<JobCredential, { want: W }>>
  /** Undefined when the install has none of that name, or this agent has no install. */
  secret(name: string): Promise<string | undefined>
  outputsOf(component: string): Promise<z.infer<typeof jobOutputs> | undefined>
  keepOutputs(component: string | undefined, outputs: z.infer<typeof jobOutputs>): Promise<void>
  report(outputs: ReportedOutputs): Promise<void>
  result(result: JobResult): Promise<void>
  progress(progress: z.infer<typeof jobProgress>): void
  /** Of a JSON value: what the job was given is not to be seen in it. */
  masked(value: unknown): unknown
  /** Undefined where the agent has no install. */
  readonly terraform: TerraformAccess | undefined
  /** Undefined where the agent has no install, or no engine of its own. */
  readonly services: ServiceAccess | undefined
}

/** State and saved plans of components, kept in the install store. */
export interface TerraformAccess {
  read(component: string): Promise<Uint8Array | undefined>
  write(component: string, state: Uint8Array): Promise<void>
  remove(component: string): Promise<void>
  /** Of all live jobs. */
  holder(component: string): { isThisJob: boolean; jobId: string; lock: StateLock } | undefined
  /** To be asked only while nobody holds it; on disk when it resolves. */
  lock(component: string, lock: StateLock): Promise<void>
  unlock(component: string): Promise<void>
  /** Its digest. */
  keepPlan(component: string, plan: Uint8Array): Promise<string>
  /** Whether this very job saved it. */
  hasSaved(digest: string): boolean
  plan(component: string, digest: string): Promise<Uint8Array | undefined>
}

/** The services of the manifest's components; see `Services` of the runtime. */
export interface ServiceAccess {
  /** `mayProbe`: the job is let to the replicas. */
  look(component: string, mayProbe: boolean): Promise<ServiceState>
  compare(component: string, spec: ServiceSpec): Promise<ServiceComparison>
  bring(component: string, spec: ServiceSpec): Promise<BroughtService>
  settle(component: string, keep: ServiceChoice): Promise<ServiceState>
  remove(component: string): Promise<void>
  logs(component: string, lines: number): Promise<ServiceLogs>
}

export interface Call {
  access: JobAccess
  request: IncomingMessage
  argument: string
  query: URLSearchParams
}

export interface Route {
  method: string
  path: RegExp
  handle: (call: Call) => Promise<unknown>
}

/** Pure: the component whose outputs these are; the manifest's first one unless the job names another of it. */
export function componentOf(manifest: JobManifest, named: string | null): string | undefined {
  const components = manifest.operations.flatMap(({ component }) => (component === null ? [] : [component]))
  if (named === null) return components[0]
  if (components.includes(named)) return named
  throw new JobApiError(
    'forbidden',
    `This job has nothing to do with ${named}.`,
    'Name a component of its manifest.',
  )
}
