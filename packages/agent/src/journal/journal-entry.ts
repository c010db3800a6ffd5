import { auditHead, jobOutputs, jobResult, signedDocument, stateLock } from '@tenon/protocol'
import { z } from 'zod'

const ofJob = { jobId: z.string(), fence: z.int() }

/** What the journal holds. Each entry sets, none adds, so that reading one twice changes nothing. */
export const journalEntry = z.discriminatedUnion('type', [
  z.object({ type: z.literal('accepted'), ...ofJob, document: signedDocument, expiresAt: z.string() }),
  /** Written before the runtime is asked, so that "never started" and "gone" can be told apart later. */
  z.object({
    type: z.literal('starting'),
    ...ofJob,
    at: z.string(),
    tokenHash: z.string(),
    given: z.string().exactOptional(),
  }),
  /** Secret values that the job has, sealed: they are masked in all that leaves of it, after a restart too. */
  z.object({ type: z.literal('given'), ...ofJob, sealed: z.string() }),
  /** It may not run yet, and the server is told so in these words. */
  z.object({ type: z.literal('held'), ...ofJob, since: z.string(), verdict: signedDocument }),
  /** Until when the server lets a held job start. */
  z.object({ type: z.literal('permit'), ...ofJob, startBefore: z.string() }),
  z.object({ type: z.literal('cancel'), ...ofJob, by: z.literal('customer').exactOptional() }),
  z.object({ type: z.literal('result'), ...ofJob, result: jobResult }),
  /** As they go into the report: a sensitive one has no value here. */
  z.object({ type: z.literal('outputs'), ...ofJob, outputs: jobOutputs }),
  /** Terraform's lock on a component's state. It is part of the job's record, so it goes when the job does. */
  z.object({
    type: z.literal('state.lock'),
    ...ofJob,
    component: z.string(),
    lock: stateLock.nullable(),
  }),
  z.object({ type: z.literal('plan'), ...ofJob, digest: z.string() }),
  z.object({ type: z.literal('log'), ...ofJob, acked: z.int(), ended: z.boolean() }),
  z.object({ type: z.literal('finished'), ...ofJob, signed: signedDocument }),
  /** Settled or forgotten: nothing of the job is left but its number in `seen`. */
  z.object({ type: z.literal('closed'), ...ofJob }),
  z.object({ type: z.literal('seen'), ...ofJob, expiresAt: z.string() }),
  z.object({ type: z.literal('head'), head: auditHead }),
  z.object({ type: z.literal('event'), seq: z.int(), signed: signedDocument }),
  z.object({ type: z.literal('event.acked'), seq: z.int() }),
  z.object({ type: z.literal('event.next'), seq: z.int() }),
  z.object({ type: z.literal('dropped'), total: z.int() }),
  /** The customer's switch: while it is set no new job is taken. */
  z.object({ type: z.literal('paused'), since: z.string().nullable() }),
])
export type JournalEntry = z.infer<typeof journalEntry>
