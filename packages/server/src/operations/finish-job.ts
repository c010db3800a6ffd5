import { jobStates, signingBytes, type AuditHead, type Json } from '@tenon/core'
import type { JobReport } from '@tenon/protocol'
import type { Context } from '../context.ts'
import { verify } from '../crypto.ts'
import { transactWithHeads } from '../store/transaction.ts'
import { chainOf } from './audit-chains.ts'
import { lockJob, settleJob } from './settle-job.ts'

export type FinishVerdict =
  | { settled: true; head: AuditHead | null }
  /** The agent must keep the report: it was not understood as its own word. */
  | { settled: false; message: string }

/** Applies a report exactly once, however often it arrives. A report whose fencing number moved on changes nothing. */
export async function finishJob(
  context: Context,
  agent: { id: string; publicKey: string },
  report: JobReport,
  signature: string,
): Promise<FinishVerdict> {
  if (!verify(agent.publicKey, signingBytes('job-report/1', report), signature)) {
    return { settled: false, message: 'the report is not signed by this agent' }
  }
  const { heads, value } = await transactWithHeads(context, async (tx) => {
    const job = await lockJob(tx, report.jobId)
    const chain = chainOf(job?.install_id ?? null)
    const stale = !job || job.agent_id !== agent.id || job.fence !== report.fence
    if (stale || jobStates.isEnd(job.status)) {
      const known = job && jobStates.isEnd(job.status) && !stale
      if (known) return { chain }
      tx.audit(chain, {
        actor: { type: 'agent', id: agent.id },
        action: 'job.stale_report',
        subject: { type: 'job', id: report.jobId },
        outcome: 'refused',
        manifestDigest: report.manifestDigest,
        details: { fence: report.fence, currentFence: job?.fence ?? null, outcome: report.outcome },
      })
      return { chain }
    }
    const { outcome, reason, exitCode, message, result, outputs } = report
    await settleJob(
      context,
      tx,
      job,
      { outcome, reason, exitCode, message, result: result as { [key: string]: Json }, outputs },
      {
        actor: { type: 'agent', id: agent.id },
        details: { report: report as unknown as Json, signature },
      },
    )
    return { chain }
  })
  return { settled: true, head: heads.get(value.chain) ?? null }
}
