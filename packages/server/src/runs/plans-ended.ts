import { SERVER_CHAIN, type App, type StepKind } from '@tenon/core'
import { planOf, type PlanResult } from '@tenon/protocol'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { type LockedRun, lockComponent } from '../store/locks.ts'
import { anyOf } from '../store/statements.ts'
import type { Tx } from '../store/transaction.ts'

export interface EndedPlan {
  run: LockedRun
  component: string
  jobId: string
  result: { [key: string]: unknown }
}

/** What follows from plans that ended well: a deploy that would change nothing is left out, a drift is noted. */
export async function followPlans(context: Context, tx: Tx, plans: readonly EndedPlan[]): Promise<void> {
  for (const { run, component, jobId, result } of plans) {
    const plan = planOf(result)
    if (!plan) continue
    if (run.kind === 'drift') await noteDrift(context, tx, run, component, jobId, plan)
    else if (!plan.hasChanges && plan.healthy !== false) await skipDeploy(tx, run, component, plan)
  }
}

const LEFT_OUT: StepKind[] = ['approval', 'action', 'deploy']

async function skipDeploy(tx: Tx, run: LockedRun, component: string, plan: PlanResult): Promise<void> {
  const { content } = await tx.db
    .selectFrom('app_version')
    .select('content')
    .where('id', '=', run.app_version_id)
    .executeTakeFirstOrThrow()
  if (settingsOf(content, component)?.skipNoops === false) return
  // Outputs come from a deploy: without one there is nothing that could be left as it is.
  const kept = await sql`
    update install_component as c set build_id = d.build_id, artifact_repository = d.artifact_repository,
      artifact_digest = d.artifact_digest, drift = null
    from deploy as d
    where d.run_id = ${run.id} and d.component = ${component} and c.install_id = d.install_id
      and c.component = d.component and c.status = 'deployed'
    returning c.component`.execute(tx.db)
  if (kept.rows.length === 0) return
  await tx.db
    .updateTable('step')
    // Where nobody can tell whether it is well, the plan alone decides.
    .set({
      status: 'skipped',
      message: plan.healthy === true ? 'nothing changes, and what runs is healthy' : 'nothing changes',
      finished_at: tx.at,
    })
    .where('run_id', '=', run.id)
    .where('component', '=', component)
    .where('kind', '=', anyOf(LEFT_OUT))
    .where('status', '=', 'pending')
    .execute()
  await tx.db
    .updateTable('deploy')
    .set({ status: 'skipped', finished_at: tx.at })
    .where('run_id', '=', run.id)
    .where('component', '=', component)
    .execute()
}

async function noteDrift(
  context: Context,
  tx: Tx,
  run: LockedRun,
  component: string,
  jobId: string,
  plan: PlanResult,
): Promise<void> {
  const row = await lockComponent(tx, run.install_id, component)
  if (!row) return
  const isKnown = row.drift !== null
  if (!plan.hasChanges && !isKnown) return
  const drift = plan.hasChanges ? { since: row.drift?.since ?? tx.at, jobId, plan } : null
  await tx.db
    .updateTable('install_component')
    .set({ drift: drift && JSON.stringify(drift) })
    .where('install_id', '=', run.install_id)
    .where('component', '=', component)
    .execute()
  if (isKnown === plan.hasChanges) return
  tx.audit(run.install_id ?? SERVER_CHAIN, {
    actor: { type: 'server', id: context.serverId },
    action: plan.hasChanges ? 'component.drifted' : 'component.drift_gone',
    subject: { type: 'component', id: component },
    outcome: 'ok',
    manifestDigest: null,
    details: { job: jobId, run: run.id, counts: plan.counts },
  })
}

export function settingsOf(app: App, component: string) {
  return app.components.find(({ name }) => name === component)?.settings
}
