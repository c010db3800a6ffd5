import { SERVER_CHAIN, type App } from '@tenon/core'
import { planOf, type PlanResult } from '@tenon/protocol'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'
import { settingsOf } from './settle-plans.ts'
import type { StartingStep } from './start-steps.ts'

/** The results of the plan steps of these runs, by `planKey`. */
export async function loadPlans(tx: Tx, runIds: readonly string[]) {
  const { rows } = await sql<{ run_id: string; component: string; result: { [key: string]: unknown } }>`
    select step.run_id, step.component, job.result from step join job on job.id = step.job_id
    where step.run_id = any(${runIds}) and step.kind = 'plan' and step.status = 'succeeded'`.execute(tx.db)
  return new Map(rows.map((row) => [planKey(row.run_id, row.component), planOf(row.result)]))
}

export function planKey(runId: string, component: string): string {
  return `${runId}/${component}`
}

/** Plans that nobody needs to see are approved at once; the others wait. Answers the runs that may go on. */
export async function startApprovals(
  context: Context,
  tx: Tx,
  waits: readonly StartingStep[],
): Promise<string[]> {
  const plans = await loadPlans(
    tx,
    waits.map(({ run }) => run.id),
  )
  const versions = await tx.db
    .selectFrom('app_version')
    .select(['id', 'content'])
    .where(sql<boolean>`id = any(${waits.map(({ run }) => run.app_version_id)})`)
    .execute()
  const apps = new Map(versions.map((row) => [row.id, row.content]))
  const over: string[] = []
  for (const { run, step } of waits) {
    const why = unasked(
      apps.get(run.app_version_id)!,
      step.component!,
      plans.get(planKey(run.id, step.component!)),
    )
    await tx.db
      .updateTable('step')
      .set({
        started_at: tx.at,
        status: why === undefined ? 'active' : 'succeeded',
        message: why ?? '',
        finished_at: why === undefined ? null : tx.at,
      })
      .where('id', '=', step.id)
      .execute()
    if (why === undefined) continue
    over.push(run.id)
    tx.audit(run.install_id ?? SERVER_CHAIN, {
      actor: { type: 'server', id: context.serverId },
      action: 'step.approved',
      subject: { type: 'step', id: step.id },
      outcome: 'ok',
      manifestDigest: null,
      details: { run: run.id, component: step.component, why },
    })
  }
  return over
}

/** Pure: why a plan needs nobody's word, or undefined when it does. */
function unasked(app: App, component: string, plan: PlanResult | undefined): string | undefined {
  if (!plan) return undefined
  if (!plan.hasChanges) return 'nothing changes'
  const isTrusted = settingsOf(app, component)?.autoApproveOnPoliciesPassing === true
  return isTrusted && plan.findings.length === 0 ? 'all policies pass' : undefined
}
