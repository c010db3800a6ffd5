import { planRun, type App, type Decision, type PlannedStep } from '@tenon/core'
import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'

/** Asks the core which steps a decision makes on the install as it is now, and stores them. */
export async function planSteps(
  context: Context,
  tx: Tx,
  runId: string,
  install: { id: string; sandbox_type: string },
  decision: Decision,
  app: App,
): Promise<PlannedStep[]> {
  const there = await tx.db
    .selectFrom('install_component')
    .select('component')
    .where('install_id', '=', install.id)
    .execute()
  const steps = planRun(decision, app, {
    deployed: new Set(there.map((row) => row.component)),
    hasSandbox: install.sandbox_type !== 'none',
    disabled: new Set(),
    plannable: new Set(),
    approval: 'approve-all',
  })
  if (steps.length === 0) return steps
  await tx.db
    .insertInto('step')
    .values(
      steps.map((s, position) => ({
        id: context.newId('step'),
        run_id: runId,
        position,
        key: s.key,
        kind: s.kind,
        component: s.component,
        depends_on: s.dependsOn,
        status: 'pending' as const,
      })),
    )
    .execute()
  return steps
}
