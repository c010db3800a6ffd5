import {
  documentBytes,
  isExactDocument,
  jobStates,
  type AuditFact,
  type AuditHead,
  type Json,
  type SignedDocument,
} from '@tenon/core'
import type { JobReport } from '@tenon/protocol'
import type { Context } from '../context.ts'
import { verifyApart } from '../crypto.ts'
import { transactWithHeads, type Tx } from '../store/transaction.ts'
import { chainOf, concerns } from './audit-chains.ts'
import { lockJobs, settleJobs, type LockedJob, type Settlement } from './settle-job.ts'
import { startedFact, startJobs, type Started } from './start-jobs.ts'

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
    const job = jobs.get(one.report.jobId)
    if (!job || isStale(one, job)) noteStale(tx, one, job)
    else if (!jobStates.isEnd(job.status) && !settlements.has(job.id))
      settlements.set(job.id, settlementOf(one, job, starts.get(leaseOf(one.report))))
  }
  for (const { job, start } of settlements.values()) {
    tx.seats.leave(job.id)
    if (start)
      tx.audit(
        chainOf(job.install_id),
        startedFact({ ...job, agent_id: job.agent_id!, confinement: start.confinement }),
      )
  }
  await settleJobs(context, tx, [...settlements.values()])
  return new Map([...jobs].map(([id, job]) => [id, chainOf(job.install_id)]))
}

function leaseOf({ agentId, jobId, fence }: { agentId: string; jobId: string; fence: number }): string {
  return `${agentId}/${jobId}/${fence}`
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

function staleFact({ agent, report }: Finished, currentFence: number | null): AuditFact {
  return {
    actor: { type: 'agent', id: agent.id },
    action: 'job.stale_report',
    subject: { type: 'job', id: report.jobId },
    outcome: 'refused',
    manifestDigest: report.manifestDigest,
    details: { fence: report.fence, currentFence, outcome: report.outcome },
  }
}

function settlementOf(
  { agent, report, signed }: Finished,
  job: LockedJob,
  start: Started | undefined,
): Settlement {
  const { outcome, reason, exitCode, message, result, outputs } = report
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
