import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { lockRuns } from '../store/locks.ts'
import type { Tx } from '../store/transaction.ts'
import { advanceRuns } from './advance.ts'

/** A provision run waits for its agent in a step of its own; here it is. */
export async function finishAgentSteps(context: Context, tx: Tx, installIds: string[]): Promise<void> {
  if (installIds.length === 0) return
  const { rows } = await sql<{ id: string; run_id: string }>`
    select step.id, step.run_id from run join step on step.run_id = run.id
    where run.install_id = any(${installIds}) and run.status = 'active'
      and step.kind = 'agent' and step.status = 'active'`.execute(tx.db)
  if (rows.length === 0) return
  const runs = await lockRuns(
    tx,
    rows.map((row) => row.run_id),
  )
  await sql`
    update step set status = 'succeeded', finished_at = ${tx.at}
    where id = any(${rows.map((row) => row.id)}) and status = 'active'`.execute(tx.db)
  await advanceRuns(context, tx, runs)
}
