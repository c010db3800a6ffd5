import { jobStates, signingBytes, type AuditFact, type AuditHead, type Json } from '@tenon/core'
import type { JobReport } from '@tenon/protocol'
import type { Context } from '../context.ts'
import { verify } from '../crypto.ts'
import { transactWithHeads } from '../store/transaction.ts'
import { chainOf } from './audit-chains.ts'
import { lockJobs, settleJobs, type LockedJob, type Settlement } from './settle-job.ts'

/** An agent's signed word on how a job ended. */
export interface Finished {
  agent: { id: string; publicKey: string }
  report: JobReport
  signature: string
}

export type FinishVerdict =
  | { settled: true; head: AuditHead | null }
  /** The agent must keep the report: it was not understood as its own word. */
  | { settled: false; message: string }

/** Applies each report exactly once, however often it arrives. A report whose fencing number moved on changes nothing. */
export async function finishJobs(context: Context, finished: readonly Finished[]): Promise<FinishVerdict[]> {
  const signed = finished.map(({ agent, report, signature }) =>
    verify(agent.publicKey, signingBytes('job-report/1', report), signature),
  )
  const valid = finished.filter((_, index) => signed[index])
  const { heads, value: chains } = await transactWithHeads(context, async (tx) => {
    const jobs = await lockJobs(
      tx,
      valid.map(({ report }) => report.jobId),
    )
    const settlements = new Map<string, Settlement>()
    for (const one of valid) {
      const job = jobs.get(one.report.jobId)
      if (!job || isStale(one, job))
        tx.audit(chainOf(job?.install_id ?? null), staleFact(one, job?.fence ?? null))
      else if (!jobStates.isEnd(job.status) && !settlements.has(job.id))
        settlements.set(job.id, settlementOf(one, job))
    }
    await settleJobs(context, tx, [...settlements.values()])
    return new Map([...jobs].map(([id, job]) => [id, chainOf(job.install_id)]))
  })
  return finished.map(({ report }, index) =>
    signed[index]
      ? { settled: true, head: heads.get(chains.get(report.jobId) ?? '') ?? null }
      : { settled: false, message: 'the report is not signed by this agent' },
  )
}

function isStale({ agent, report }: Finished, job: LockedJob): boolean {
  return job.agent_id !== agent.id || job.fence !== report.fence
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

function settlementOf({ agent, report, signature }: Finished, job: LockedJob): Settlement {
  const { outcome, reason, exitCode, message, result, outputs } = report
  return {
    job,
    ending: { outcome, reason, exitCode, message, result: result as { [key: string]: Json }, outputs },
    fact: {
      actor: { type: 'agent', id: agent.id },
      details: { report: report as unknown as Json, signature },
    },
  }
}
