import { z } from 'zod'
import { clippedText, jsonObject } from './scalars.ts'

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
 */
export const jobContext = z.object({
  installId: z.string().nullable(),
  /** The registry that plugins and artifacts are read from: the install's own, or the vendor's for build and setup jobs. */
  registry: z.object({ url: z.string(), bearer: z.string() }).nullable(),
  /** Socket of the local sandbox's supervisor, when this install has one. */
  hostSocket: z.string().nullable(),
  serverUrl: z.string(),
  /** The folder with the programs that come with the agent (agent, job, registry), for a sandbox job to seed an install. */
  programs: z.string(),
  /** The server's keys that the agent pinned, by id: what is synced must be signed by one of them. */
  serverKeys: z.record(z.string(), z.string()).optional(),
  /** A folder that outlives the job, for a sync to note where it is. Losing it costs time only. */
  cacheDir: z.string().optional(),
})
export type JobContext = z.infer<typeof jobContext>

export const jobSecret = z.object({ name: z.string(), value: z.string() })
export const jobProgress = z.strictObject({
  message: clippedText(300),
  fraction: z.number().min(0).max(1).nullable(),
})
export const jobResult = z.strictObject({
  ok: z.boolean(),
  message: clippedText(2000),
  /** Facts for the record: digests, versions, addresses. Never a secret. */
  data: jsonObject,
})
export type JobResult = z.infer<typeof jobResult>

export const JOB_API_MAX_BODY = 4_194_304
