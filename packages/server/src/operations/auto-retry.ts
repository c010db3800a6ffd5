import { repeatedWith, retryDelay, type JobEndReason, type Json, type StepKind } from '@tenon/core'
import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'
import type { Run } from './advance-run.ts'

export interface FailedStep {
  id: string
  key: string
  kind: StepKind
  component: string | null
  attempts: number
  max_auto_retries: number
  run: Run
  reason: JobEndReason
  result: { [key: string]: Json }
}

/** Steps that failed and may be tried again by themselves go back to waiting, each until its time. */
export async function retryFailedSteps(
  context: Context,
  tx: Tx,
  failed: readonly FailedStep[],
): Promise<void> {
  for (const step of failed) {
    if (step.run.cancel_requested_at !== null) continue
    const delay = retryDelay({
      kind: step.kind,
      attempts: step.attempts,
      maxAutoRetries: step.max_auto_retries,
      reason: step.reason,
      isFinal: step.result['final'] === true,
    })
    if (delay === undefined) continue
    const notBefore = new Date(context.now() + delay).toISOString()
    await repeatSteps(tx, step, notBefore)
    tx.audit(step.run.install_id, {
      actor: { type: 'server', id: context.serverId },
      action: 'step.retried',
      subject: { type: 'step', id: step.id },
      outcome: 'ok',
      manifestDigest: null,
      details: { run: step.run.id, key: step.key, attempts: step.attempts, notBefore },
    })
  }
}

/** The step and what must be done again with it. What it said stays to be read until it starts again. */
export async function repeatSteps(
  tx: Tx,
  step: { key: string; kind: StepKind; component: string | null; run: { id: string } },
  notBefore: string | null,
): Promise<void> {
  const kinds = repeatedWith(step)
  await tx.db
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
    )
    .execute()
  if (step.component === null) return
  await tx.db
    .updateTable('deploy')
    .set({ status: 'pending', finished_at: null })
    .where('run_id', '=', step.run.id)
    .where('component', '=', step.component)
    .execute()
}
