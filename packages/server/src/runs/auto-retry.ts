import { retryDelay } from '@tenon/core'
import type { Context } from '../context.ts'
import type { EndedJob } from '../ground/followers.ts'
import type { Tx } from '../store/transaction.ts'
import { repeatSteps } from './deploy-gate.ts'

/** Steps that failed and may be tried again by themselves go back to waiting, each until its time. */
export async function retryFailedSteps(context: Context, tx: Tx, failed: readonly EndedJob[]): Promise<void> {
  for (const { job, ending } of failed) {
    const { run, step_kind: kind, step_key: key } = job
    if (!run || !kind || !key || run.cancel_requested_at !== null) continue
    const attempts = job.attempts ?? 1
    const delay = retryDelay({
      kind,
      attempts,
      maxAutoRetries: job.max_auto_retries ?? 0,
      reason: ending.reason,
      isFinal: ending.result['final'] === true,
    })
    if (delay === undefined) continue
    const notBefore = new Date(context.now() + delay).toISOString()
    await repeatSteps(tx, run.id, (step) => step.key === key, notBefore)
    tx.audit(run.install_id, {
      actor: { type: 'server', id: context.serverId },
      action: 'step.retried',
      subject: { type: 'step', id: job.step_id! },
      outcome: 'ok',
      manifestDigest: null,
      details: { run: run.id, key, attempts, notBefore },
    })
  }
}
