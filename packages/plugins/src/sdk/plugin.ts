import type { Socket } from 'node:net'
import type { Json, JobManifest, ManifestOperation } from '@tenon/core'
import type { JobContext, PluginDescription } from '@tenon/protocol'
import type { JobApi, JobOutputs } from './job-api.ts'

export type OperationName = ManifestOperation['operation']

/**
 * What implements one component type. It runs inside a job: every call may end at any moment and be made again
 * by a later job, so each operation must be safe to repeat. `signal` aborts when the job is told to stop.
 */
export interface Plugin {
  description: PluginDescription
  operations: Partial<Record<OperationName, (context: OperationContext) => Promise<OperationResult>>>
}

export interface OperationContext {
  manifest: JobManifest
  operation: ManifestOperation
  /** Where things are for this job. */
  job: JobContext
  api: JobApi
  /** The folder of one of the operation's artifacts, pulled by digest and unpacked when first asked for. */
  artifact(name: string, options?: { artifactType?: string }): Promise<string>
  /** The component's own configuration with every template in it rendered; it may hold secrets. */
  rendered(): Promise<{ [key: string]: Json }>
  /** One line of the job's log. Never a secret. */
  log(line: string): void
  /** A folder of this operation alone; it is gone with the job. */
  workDir: string
  /** What a program started by the plugin gets as its environment, besides its own. */
  baseEnv: Record<string, string>
  signal: AbortSignal
  /** In a job without a network of the machine's, the way out; absent, a plugin connects by itself. */
  dial?: Dial
}

/**
 * A connection to `host:port` through the agent, if the job may have it. Rejects in words for people; with
 * `isRefused: true` where asking again is useless.
 */
export type Dial = (place: string, giveUp?: AbortSignal) => Promise<Socket>

/** `ok: false` is a result too: the work was done, and what it found or tried did not go well. */
export interface OperationResult {
  ok: boolean
  message: string
  /** Facts for the record: digests, versions, addresses. Never a secret. */
  data: { [key: string]: Json }
  outputs?: JobOutputs
}
