import { z } from 'zod'
import { clippedText, digest, handingOn, jsonObject } from './scalars.ts'

/**
 * The agent's local endpoint for jobs: HTTP over a unix socket, one bearer token per job.
 * A job finds it through TENON_JOB_URL (`unix:/path/job.sock`) and TENON_JOB_TOKEN_FILE (a file only this job can read).
 *
 *   GET  /v1/manifest              the manifest's content                   → jobManifest
 *   GET  /v1/context               where things are for this job            → jobContext
 *   GET  /v1/secrets/:name         one secret of the install                → jobSecret
 *   GET  /v1/outputs/:component    outputs of another component             → jobOutputs, with sensitive values
 *   POST /v1/credentials/registry  access to the vendor registry            → registryCredential, `registry` made absolute
 *   POST /v1/credentials/join-token  for a sandbox job                      → joinCredential
 *   POST /v1/attestations          attestationRequest: the server's signature and provenance of what a build pushed
 *                                                                           → attestationCredential
 *   PUT  /v1/progress              jobProgress
 *   PUT  /v1/outputs               jobOutputs of the operation's component
 *   PUT  /v1/result                jobResult
 *   GET | POST | DELETE /v1/terraform/:component   the component's Terraform state, as the `http` backend speaks
 *   LOCK | UNLOCK /v1/terraform/:component         its lock; body and 423 answer: stateLock. It is the job's: free once the job is over
 *   PUT  /v1/plans[?component=]    a saved plan's bytes                     → savedPlan
 *   GET  /v1/plans/:digest         one that the manifest approved, or that this job put → its bytes
 *   CONNECT host:port             a connection to what the job's network lets it reach, made by the agent; else 403 with the reason
 *   … /v1/service                  a component that runs on the agent's engine; see job-service.ts
 *
 * Terraform knows basic authentication only: the token is taken as the password too. It is never part of an address.
 */
export const jobContext = handingOn({
  installId: z.string().nullable(),
  /** The registry that plugins and artifacts are read from: the install's own, or the vendor's for build and setup jobs. */
  registry: handingOn({
    url: z.string(),
    bearer: z.string(),
    /** `host[:port]` by which the nodes of a cluster pull from it; absent: the one in `url`. */
    nodeAddress: z.string().max(255).exactOptional(),
  }).nullable(),
  /** Socket of the local sandbox's supervisor, when this install has one. */
  hostSocket: z.string().nullable(),
  serverUrl: z.string(),
  /** The folder with the programs that come with the agent (agent, job, registry), for a sandbox job to seed an install. */
  programs: z.string(),
  /** File that was lent to jobs for the install's cluster; absent inside a cluster, where a pod has its own access. */
  kubeconfig: z.string().exactOptional(),
  /** The server's keys that the agent pinned, by id: what is synced must be signed by one of them. */
  serverKeys: z.record(z.string(), z.string()).optional(),
  /** A folder that outlives the job, for a sync to note where it is. Losing it costs time only. */
  cacheDir: z.string().optional(),
  /** The agent runs services of components itself, on its engine; see job-service.ts. */
  hasServices: z.boolean().exactOptional(),
})
export type JobContext = z.infer<typeof jobContext>

export const jobSecret = z.object({ name: z.string(), value: z.string() })
export const jobProgress = z.object({
  message: clippedText(300),
  fraction: z.number().min(0).max(1).nullable(),
})
export const jobResult = z.object({
  ok: z.boolean(),
  message: clippedText(2000),
  /** Facts for the record: digests, versions, addresses. Never a secret. */
  data: jsonObject,
})
export type JobResult = z.infer<typeof jobResult>

/** What Terraform says about a lock. Only the id is needed; the rest is for people. */
export const stateLock = z.object({
  ID: z.string().min(1).max(128),
  Operation: clippedText(200).default(''),
  Info: clippedText(1000).default(''),
  Who: clippedText(200).default(''),
  Version: clippedText(50).default(''),
  Created: clippedText(50).default(''),
  Path: clippedText(500).default(''),
})
export type StateLock = z.infer<typeof stateLock>

export const savedPlan = z.object({ digest })

export const JOB_API_MAX_BODY = 4_194_304
export const MAX_STATE_BYTES = 67_108_864
export const MAX_PLAN_BYTES = 67_108_864
