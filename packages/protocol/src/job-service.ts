import { z } from 'zod'
import { clippedText } from './scalars.ts'

/**
 * A component that runs on the agent's own container engine, driven by its jobs. The component and the image are those
 * of the manifest; a call names neither, nor any right, mount or port of the machine.
 *
 *   GET    /v1/service             what runs, and what is being brought up     → serviceState
 *   POST   /v1/service/compare     serviceSpec against what runs               → serviceComparison
 *   PUT    /v1/service             serviceSpec: brings a generation up beside the one that runs → broughtService
 *   POST   /v1/service/settle      serviceChoice: which of the two stays       → serviceState
 *   DELETE /v1/service             removes all of it
 *   GET    /v1/service/logs?tail=  the last lines of each replica              → serviceLogs
 *
 * All take `?component=`, as outputs do. Changes are for jobs of the kinds `deploy` and `destroy`.
 */
export const MAX_SERVICE_REPLICAS = 50
export const MAX_SERVICE_LOG_LINES = 10_000

const argument = z
  .string()
  .max(65_536)
  .refine((value) => !value.includes('\0'), 'must not hold the zero character')

export const serviceSpec = z.object({
  replicas: z.int().min(1).max(MAX_SERVICE_REPLICAS),
  /** Where it listens; nothing is published on the machine. */
  port: z.int().min(1).max(65_535),
  /** Instead of the image's own. */
  command: z.array(argument).min(1).max(200).exactOptional(),
  env: z.record(z.string().regex(/^[^=\0]{1,200}$/), argument),
})
export type ServiceSpec = z.infer<typeof serviceSpec>

export const serviceReplica = z.object({
  name: z.string(),
  number: z.int().positive(),
  /** In the engine's own word: `running`, `restarting`, `exited`, … */
  state: z.string(),
  isRunning: z.boolean(),
  /** Null while it runs. */
  exitCode: z.int().nullable(),
  wasOomKilled: z.boolean(),
  restarts: z.int().nonnegative(),
  /** What the engine says of it; empty when nothing. */
  error: clippedText(1000),
  /** In the network of the services; null while it has none. */
  address: z.string().nullable(),
})
export type ServiceReplica = z.infer<typeof serviceReplica>

/** All replicas that were made together, from one image and one specification. */
export const serviceGeneration = z.object({
  /** Never given twice. */
  id: z.string(),
  /** By digest. */
  image: z.string(),
  wanted: z.int().positive(),
  port: z.int(),
  /** Those that are there, which may be fewer. */
  replicas: z.array(serviceReplica),
})
export type ServiceGeneration = z.infer<typeof serviceGeneration>

export const serviceState = z.object({
  /** By which other services reach it. */
  host: z.string(),
  current: serviceGeneration.nullable(),
  /** Brought up, and not settled yet. */
  next: serviceGeneration.nullable(),
})
export type ServiceState = z.infer<typeof serviceState>

/** `changed: false`: what is wanted runs already, and nothing was brought up. */
export const broughtService = z.object({ ...serviceState.shape, changed: z.boolean() })
export type BroughtService = z.infer<typeof broughtService>

export const serviceChoice = z.object({ keep: z.enum(['new', 'old']) })
export type ServiceChoice = z.infer<typeof serviceChoice>['keep']

/** Values of the environment are compared by the agent and told by their names alone. */
export const serviceComparison = z.object({
  changes: z.array(
    z.object({
      /** `image`, `replicas`, `port`, `command`, or `env.NAME`. */
      field: z.string(),
      before: z.string().nullable(),
      after: z.string().nullable(),
    }),
  ),
})
export type ServiceComparison = z.infer<typeof serviceComparison>

export const serviceLogs = z.object({
  replicas: z.array(z.object({ name: z.string(), text: z.string() })),
})
export type ServiceLogs = z.infer<typeof serviceLogs>
