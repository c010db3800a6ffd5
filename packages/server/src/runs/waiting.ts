import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { lockRun } from '../store/locks.ts'
import { transact } from '../store/transaction.ts'
import { activateNext, advance } from './advance.ts'

/** Runs that nobody started though nothing is ahead of them: the hint was lost, or its process died. */
export async function startWaitingRuns(context: Context): Promise<void> {
  const stuck = await context.db
    .selectFrom('run as queued')
    .select('queued.install_id')
    .distinct()
    .where('queued.status', '=', 'queued')
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom('run as active')
            .select('active.id')
            .whereRef('active.install_id', '=', 'queued.install_id')
            .where('active.status', '=', 'active'),
        ),
      ),
    )
    .execute()
  for (const { install_id } of stuck) await transact(context, (tx) => activateNext(context, tx, install_id))
}

/** Steps that were to be tried again at some time: their runs go on. */
export async function retryDueSteps(context: Context): Promise<void> {
  const at = new Date(context.now()).toISOString()
  const due = await context.db
    .selectFrom('step')
    .select('run_id')
    .distinct()
    .where('status', '=', 'pending')
    .where('not_before', '<=', at)
    .execute()
  for (const { run_id } of due) {
    await transact(context, async (tx) => {
      const run = await lockRun(tx, run_id)
      // From here on they wait for their turn alone, which may be for a person: nobody needs to look again.
      tx.write(sql`
        update step set not_before = null where run_id = ${run_id} and status = 'pending' and not_before <= ${at}`)
      if (run) await advance(context, tx, run)
    })
  }
}
