import { repeatedWith, retryDelay, type StepKind } from '@tenon/core'
import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'
import type { Ending, LockedJob } from './settle-job.ts'

/** Steps that failed and may be tried again by themselves go back to waiting, each until its time. */
export function retryFailedSteps(
  context: Context,
  tx: Tx,
  failed: readonly { job: LockedJob; ending: Ending }[],
): void {
  for (const { job, ending } of failed) {
    const { run, step_kind: kind, step_key: key, component } = job
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
    repeatSteps(tx, { key, kind, component, run }, notBefore)
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

/** The step and what must be done again with it. What it said stays to be read until it starts again. */
export function repeatSteps(
  tx: Tx,
  step: { key: string; kind: StepKind; component: string | null; run: { id: string } },
  notBefore: string | null,
): void {
  const kinds = repeatedWith(step)
  tx.write(
    tx.db
      .updateTable('step')
      .set({ status: 'pending', job_id: null, not_before: notBefore, started_at: null, finished_at: null })
      .where('run_id', '=', step.run.id)
      .where((eb) =>
        eb.or([
          eb('key', '=', step.key),
          eb.and([
            eb('component', '=', step.component),
            eb('kind', 'in', kinds),
            eb('status', '<>', 'skipped'),
          ]),
        ]),
      ),
  )
  if (step.component === null) return
  tx.write(
    tx.db
      .updateTable('deploy')
      .set({ status: 'pending', finished_at: null })
      .where('run_id', '=', step.run.id)
      .where('component', '=', step.component),
  )
}
