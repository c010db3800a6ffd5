import {
  documentBytes,
  isExactDocument,
  JOB_OUTCOMES,
  jobStates,
  knownOr,
  type AuditHead,
  type JobOutcome,
  type Json,
  type OwnFact,
  type SignedDocument,
} from '@tenon/core'
import type { JobReport } from '@tenon/protocol'
import { sql } from 'kysely'
import { chainOf, concerns } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { verifyApart } from '../crypto.ts'
import { lockJob, lockJobs, type LockedJob } from '../store/locks.ts'
import { transactWithHeads, type Tx } from '../store/transaction.ts'
import { settleJobs, type Settlement } from './end.ts'
import { isOverdue, lapseJob } from './lapse.ts'
import { leaseOf } from './leases.ts'
import { reviveJob } from './revive.ts'
import { startedFact, startJobs, type Started } from './start.ts'

/** An agent's signed word on how a job ended. */
export interface Finished {
  agent: { id: string; publicKeys: readonly string[]; installId: string | null }
  report: JobReport
  /** What was signed, of which `report` is what is known here. */
  signed: SignedDocument
}

export type FinishVerdict =
  | { settled: true; head: AuditHead | null }
  /** The agent must keep the report: it was not understood as its own word. */
  | { settled: false; message: string }

/** What agents tell of their jobs, in the order in which they told it. */
export type Told = { started: Started } | { finished: Finished }

const UNSIGNED: FinishVerdict = { settled: false, message: 'the report is not signed by this agent' }

/**
 * Applies each report exactly once, however often it arrives. A report whose fencing number moved on changes nothing.
 * One transaction for all: of a job that began and ended meanwhile both are written at once.
 */
export async function applyTold(context: Context, told: readonly Told[]): Promise<FinishVerdict[]> {
  const finished = told.flatMap((one) => ('finished' in one ? [one.finished] : []))
  const signed = await Promise.all(finished.map(isSigned))
  const valid = new Set(finished.filter((_, index) => signed[index]))
  const started = told.flatMap((one) => ('started' in one ? [one.started] : []))
  const { heads, value: chains } = await transactWithHeads(context, (tx) =>
    applyAll(context, tx, [...valid], started),
  )
  return told.map((one) => {
    const { jobId } = 'finished' in one ? one.finished.report : one.started
    if ('finished' in one && !valid.has(one.finished)) return UNSIGNED
    return { settled: true, head: heads.get(chains.get(jobId) ?? '') ?? null }
  })
}

async function applyAll(
  context: Context,
  tx: Tx,
  finished: readonly Finished[],
  started: readonly Started[],
): Promise<Map<string, string>> {
  const ended = new Set(finished.map(({ report }) => leaseOf(report)))
  const [jobs] = await Promise.all([
    lockJobs(
      tx,
      finished.map(({ report }) => report.jobId),
    ),
    startJobs(
      context,
      tx,
      started.filter((one) => !ended.has(leaseOf(one))),
    ),
  ])
  const starts = new Map(started.map((one) => [leaseOf(one), one]))
  const settlements = new Map<string, Settlement>()
  for (const one of finished) {
    const job = await settleable(context, tx, one, jobs.get(one.report.jobId))
    if (!job || isStale(one, job)) noteStale(tx, one, job)
    else if (!jobStates.isEnd(job.status) && !settlements.has(job.id))
      settlements.set(job.id, settlementOf(one, job, starts.get(leaseOf(one.report))))
  }
  for (const { job, start } of settlements.values()) {
    tx.slots.leave(job.id)
    if (start)
      tx.audit(
        chainOf(job.install_id),
        startedFact({ ...job, agent_id: job.agent_id!, confinement: start.confinement }),
      )
  }
  await settleJobs(context, tx, [...settlements.values()])
  return new Map([...jobs].map(([id, job]) => [id, chainOf(job.install_id)]))
}

/** The job as it is judged by. One whose hold was over answers that it will not start; one that had lapsed may have run. */
async function settleable(
  context: Context,
  tx: Tx,
  one: Finished,
  job: LockedJob | undefined,
): Promise<LockedJob | undefined> {
  if (!job || isStale(one, job)) return job
  const { report, signed } = one
  const isCanceled = report.outcome === 'canceled'
  if (
    job.status === 'held' &&
    isCanceled &&
    !job.cancel_requested_at &&
    (await isOverdue(context, tx, job.id))
  ) {
    await lapseJob(context, tx, job.id, { report: signed as unknown as Json })
    return { ...job, status: 'lapsed' }
  }
  if (job.status !== 'lapsed') return job
  if (!isCanceled && (await reviveJob(context, tx, job.id))) return lockJob(tx, job.id)
  await noteLate(tx, one, job)
  return job
}

/** It cannot be applied any more, but it says what was done in the install. Noted once, however often it arrives. */
async function noteLate(tx: Tx, { agent, report, signed }: Finished, job: LockedJob): Promise<void> {
  const { rows } = await sql`
    insert into job_lapse (job_id, at, reported_at) values (${job.id}, ${tx.at}, ${tx.at})
    on conflict (job_id) do update set reported_at = excluded.reported_at where job_lapse.reported_at is null
    returning job_id`.execute(tx.db)
  if (rows.length === 0) return
  tx.audit(chainOf(job.install_id), {
    actor: { type: 'agent', id: agent.id },
    action: 'job.late_report',
    subject: { type: 'job', id: job.id },
    outcome: 'refused',
    manifestDigest: job.manifest_digest,
    details: { fence: job.fence, outcome: report.outcome, report: signed as unknown as Json },
  })
}

async function isSigned({ agent, signed }: Finished): Promise<boolean> {
  if (!isExactDocument(signed)) return false
  const bytes = documentBytes('job-report/1', signed.text)
  for (const key of agent.publicKeys) if (await verifyApart(key, bytes, signed.signature)) return true
  return false
}

function isStale({ agent, report }: Finished, job: LockedJob): boolean {
  return job.agent_id !== agent.id || job.fence !== report.fence
}

/** In the chain of the job's install only when it is this agent's business. */
function noteStale(tx: Tx, one: Finished, job: LockedJob | undefined): void {
  const own = job && concerns(job, one.agent) ? job : undefined
  tx.audit(chainOf(own ? own.install_id : one.agent.installId), staleFact(one, own?.fence ?? null))
}

function staleFact({ agent, report }: Finished, currentFence: number | null): OwnFact<'job'> {
  return {
    actor: { type: 'agent', id: agent.id },
    action: 'job.stale_report',
    subject: { type: 'job', id: report.jobId },
    outcome: 'refused',
    manifestDigest: report.manifestDigest,
    details: { fence: report.fence, currentFence, outcome: report.outcome },
  }
}

/** A later version's word for an end says nothing that could go on here. */
function knownEnd({ outcome, message }: JobReport): { outcome: JobOutcome; message: string } {
  const known = knownOr(JOB_OUTCOMES, outcome)
  if (known !== 'other') return { outcome: known, message }
  const words = `it ended as “${outcome}”, which this server does not know: update the server`
  return { outcome: 'failed', message: message === '' ? words : `${words}; ${message}` }
}

function settlementOf(
  { agent, report, signed }: Finished,
  job: LockedJob,
  start: Started | undefined,
): Settlement {
  const { reason, exitCode, result, outputs } = report
  const { outcome, message } = knownEnd(report)
  return {
    job,
    // One that is already known to run is not started anew.
    start: job.status === 'running' ? undefined : start,
    ending: { outcome, reason, exitCode, message, result: result as { [key: string]: Json }, outputs },
    fact: {
      actor: { type: 'agent', id: agent.id },
      details: { report: signed as unknown as Json },
    },
  }
}
