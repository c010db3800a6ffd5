import {
  isSignedBy,
  jobStates,
  parseDocument,
  signDocument,
  type Json,
  type OwnFact,
  type SignedDocument,
} from '@tenon/core'
import { agentVerdict, type AgentVerdict } from '@tenon/protocol'
import { sql } from 'kysely'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { verify } from '../crypto.ts'
import { lockJob, type LockedJob } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'

export interface Held {
  agent: { id: string; publicKeys: readonly string[] }
  jobId: string
  fence: number
  /** The agent's signed word. */
  signed: SignedDocument
}

const MAX_HOLD_MS = 7 * 86_400_000

export type HoldAnswer = { ok: true; permit: SignedDocument | undefined } | { ok: false; message: string }

/**
 * The agent said *not now*: the job has no slot and no lease from here on, and may start until the moment that is signed in
 * answer. Said again it changes nothing; about a job that is another's, or has gone on, neither.
 */
export async function holdJob(context: Context, held: Held): Promise<HoldAnswer> {
  const verdict = readVerdict(held)
  if (!verdict || verdict.answer === 'no')
    return { ok: false, message: 'a verdict is not signed by this agent, or not about that job' }
  const startBefore = await transact(context, async (tx) => {
    const job = await lockJob(tx, held.jobId)
    if (job?.agent_id !== held.agent.id || job.fence !== held.fence) return undefined
    if (job.status !== 'held' && !jobStates.can(job.status, 'held')) return undefined
    return keepHold(context, tx, job, { ...held, verdict })
  })
  return { ok: true, permit: startBefore === undefined ? undefined : permitOf(context, held, startBefore) }
}

/** Undefined for what is not this agent's word on that job. */
export function readVerdict({ agent, jobId, fence, signed }: Held): AgentVerdict | undefined {
  const isSigned = agent.publicKeys.some((key) => isSignedBy('agent-verdict/1', signed, key, verify))
  if (!isSigned) return undefined
  const verdict = agentVerdict.safeParse(parseDocument(signed.text)).data
  const isItsOwn = verdict?.agentId === agent.id && verdict.jobId === jobId && verdict.fence === fence
  return isItsOwn ? verdict : undefined
}

/** The last moment to start stays what it was when the job was first held. */
async function keepHold(
  context: Context,
  tx: Tx,
  job: LockedJob,
  { agent, signed, verdict }: Held & { verdict: AgentVerdict },
): Promise<string> {
  const { rule, reason, until } = verdict
  const before = await tx.db
    .selectFrom('job_hold')
    .selectAll()
    .where('job_id', '=', job.id)
    .executeTakeFirst()
  if (job.status === 'held' && before?.reason === reason) return before.start_before
  const start = before?.start_before ?? startBefore(context, verdict)
  tx.write(sql`update job set status = 'held', lease_until = null where id = ${job.id}`)
  tx.write(
    tx.db
      .insertInto('job_hold')
      .values({ job_id: job.id, agent_id: agent.id, rule, reason, until, since: tx.at, start_before: start })
      .onConflict((c) => c.column('job_id').doUpdateSet({ rule, reason, until })),
  )
  tx.audit(chainOf(job.install_id), heldFact(job, verdict, signed, start))
  tx.nudge(`job:${job.id}`, ...(job.run_id ? [`run:${job.run_id}`] : []))
  return start
}

/** Nobody waits for longer than a week, however long the server did not hear of it. */
function startBefore(context: Context, { since, at }: AgentVerdict): string {
  const longest = Date.parse(since ?? at) + MAX_HOLD_MS
  return new Date(Math.min(context.now() + context.config.holdSeconds * 1000, longest)).toISOString()
}

function heldFact(
  job: LockedJob,
  verdict: AgentVerdict,
  signed: SignedDocument,
  start: string,
): OwnFact<'job'> {
  const { rule, reason } = verdict
  return {
    actor: { type: 'agent', id: verdict.agentId },
    action: 'job.held',
    subject: { type: 'job', id: job.id },
    outcome: 'ok',
    manifestDigest: job.manifest_digest,
    details: { fence: job.fence, rule, reason, startBefore: start, verdict: signed as unknown as Json },
  }
}

function permitOf(context: Context, { jobId, fence }: Held, startBefore: string): SignedDocument {
  const { keyId, key } = context.keys.current()
  const permit = { serverId: context.serverId, jobId, fence, startBefore }
  return signDocument('job-start/1', permit, keyId, key.sign)
}
