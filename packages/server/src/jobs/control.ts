import { jobStates, keptManifest, type JobOutcome, type Json, type SignedDocument } from '@tenon/core'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { ownerOf } from '../ground/followers.ts'
import { actorOf, type Caller } from '../people/actor.ts'
import { lockJob, type LockedJob } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { settleJob } from './end.ts'
import { signManifest } from './sign-manifest.ts'

const nothing = { exitCode: null, result: {}, outputs: {} }

/** A job that waits ends at once; one that an agent has is asked to stop. */
export async function cancelJob(context: Context, jobId: string, caller: Caller): Promise<void> {
  await transact(context, async (tx) => {
    const job = await lockJob(tx, jobId)
    if (!job) throw new ApiFailure('not_found', `there is no job ${jobId}`)
    if (jobStates.isEnd(job.status))
      throw new ApiFailure('wrong_state', `job ${jobId} has already ${job.status}`)
    await cancelLocked(context, tx, job, caller)
  })
}

export async function cancelLocked(context: Context, tx: Tx, job: LockedJob, caller: Caller): Promise<void> {
  if (job.status === 'queued') {
    await settleJob(
      context,
      tx,
      job,
      { outcome: 'canceled', reason: 'canceled', message: 'canceled before it started', ...nothing },
      { actor: actorOf(caller) },
    )
    return
  }
  if (job.cancel_requested_at) return
  await tx.db.updateTable('job').set({ cancel_requested_at: tx.at }).where('id', '=', job.id).execute()
  tx.audit(chainOf(job.install_id), {
    actor: actorOf(caller),
    action: 'job.cancel_requested',
    subject: { type: 'job', id: job.id },
    outcome: 'ok',
    manifestDigest: job.manifest_digest,
    details: { fence: job.fence },
  })
  if (job.agent_id) tx.nudge(`agent:${job.agent_id}`)
}

/** A person's word on a job that nobody can ask any more. */
export async function forceSettle(
  context: Context,
  jobId: string,
  outcome: JobOutcome,
  reason: string,
  caller: Caller,
): Promise<void> {
  await transact(context, async (tx) => {
    const job = await lockJob(tx, jobId)
    if (!job) throw new ApiFailure('not_found', `there is no job ${jobId}`)
    if (!(await isOutOfReach(tx, job))) {
      throw new ApiFailure(
        'wrong_state',
        `job ${jobId} is ${job.status}; by hand only a lost job is settled, or one that is held by an agent which is away`,
        { remedy: 'Cancel it instead: `tenon jobs cancel`.' },
      )
    }
    const owner = ownerOf(job)
    if (owner) await context.followers.jobs[owner].requireMayEnd(tx, job, outcome)
    await settleJob(
      context,
      tx,
      job,
      { outcome, reason: 'forced', message: reason, ...nothing },
      { actor: actorOf(caller), details: { forced: true } },
    )
  })
}

async function isOutOfReach(tx: Tx, { status, agent_id }: LockedJob): Promise<boolean> {
  if (status !== 'held') return status === 'lost'
  const agent = await tx.db
    .selectFrom('agent')
    .select('session_id')
    .where('id', '=', agent_id)
    .executeTakeFirst()
  return (agent?.session_id ?? null) === null
}

/** The agent would not run it: nothing happened, and the job says why. */
export async function refuseJob(
  context: Context,
  agent: { id: string; installId: string | null },
  refused: {
    jobId: string
    fence: number
    code: string
    message: string
    verdict?: SignedDocument | undefined
  },
): Promise<void> {
  // Kept, so that whoever reads the audit can check it; an earlier agent signed none.
  const signed = refused.verdict ? { verdict: refused.verdict as unknown as Json } : {}
  await transact(context, async (tx) => {
    const job = await lockJob(tx, refused.jobId)
    // Only a job that waits for this agent's answer ends by it: one that runs, has ended or is another's was not refused.
    if (job?.agent_id !== agent.id || job.fence !== refused.fence || job.status !== 'assigned')
      return tx.audit(chainOf(agent.installId), {
        actor: { type: 'agent', id: agent.id },
        action: 'job.refused',
        subject: { type: 'job', id: refused.jobId },
        outcome: 'refused',
        manifestDigest: null,
        details: { refusal: refused.code, fence: refused.fence, message: refused.message, ...signed },
      })
    await settleJob(
      context,
      tx,
      job,
      {
        outcome: 'failed',
        reason: 'refused',
        message: `the agent refused it: ${refused.message}`,
        ...nothing,
      },
      {
        actor: { type: 'agent', id: agent.id },
        details: { refusal: refused.code, ...signed },
      },
    )
  })
}

/** Back to the queue under a new fencing number, with a new manifest: whoever had the old one can no longer report for it. */
export async function requeueJob(
  context: Context,
  tx: Tx,
  jobId: string,
  agentId: string,
  why: string,
): Promise<void> {
  const job = await lockJob(tx, jobId)
  if (!job || job.status !== 'assigned' || job.agent_id !== agentId) return
  if (job.cancel_requested_at) {
    await settleJob(
      context,
      tx,
      job,
      { outcome: 'canceled', reason: 'canceled', message: 'canceled before it started', ...nothing },
      { actor: { type: 'server', id: context.serverId } },
    )
    return
  }
  const fence = job.fence + 1
  const signed = await signAgain(context, tx, job.id, fence)
  await tx.db
    .updateTable('job')
    .set({ status: 'queued', fence, agent_id: null, assigned_at: null, lease_until: null, ...signed })
    .where('id', '=', job.id)
    .execute()
  tx.audit(chainOf(job.install_id), {
    actor: { type: 'server', id: context.serverId },
    action: 'job.requeued',
    subject: { type: 'job', id: job.id },
    outcome: 'ok',
    manifestDigest: signed.manifest_digest,
    details: { fence, why },
  })
  tx.nudge(`pool:${job.pool}`)
}

/** Its agent is back without it, and without its result: what it did is unknown, but it runs no more. */
export async function endGoneJob(context: Context, tx: Tx, jobId: string, agentId: string): Promise<void> {
  const job = await lockJob(tx, jobId)
  if (!job || job.agent_id !== agentId || (job.status !== 'running' && job.status !== 'lost')) return
  await settleJob(
    context,
    tx,
    job,
    {
      outcome: 'failed',
      reason: 'gone',
      message: 'the agent came back without it: it ended without a trace',
      ...nothing,
    },
    { actor: { type: 'agent', id: agentId } },
  )
}

/** The same work under a new signature: what a job may do never changes after it was decided. */
export async function signAgain(context: Context, tx: Tx, jobId: string, fence: number) {
  const row = await tx.db
    .selectFrom('job')
    .select(['manifest', 'kind', 'role', 'install_id'])
    .where('id', '=', jobId)
    .executeTakeFirstOrThrow()
  const { operations, limits, role, network, requires } = keptManifest(row.manifest)
  return signManifest(context, jobId, fence, {
    kind: row.kind,
    role: row.role,
    installId: row.install_id,
    operations,
    limits,
    cloudRole: role,
    network,
    requires,
  })
}
