import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { byServer } from '../people/actor.ts'
import { createRun } from '../runs/create.ts'
import { anyOf } from '../store/statements.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { nextOf } from './actions.ts'

interface Due {
  install_id: string
  action: string
  schedules: string[]
  next_at: string | null
  passed_over: string | null
}

/** Starts what is due, each in a transaction of its own. However many times were missed, they are started once. */
export async function startDueActions(context: Context): Promise<void> {
  const refused = new Map<string, string>()
  for (;;) {
    try {
      const isMore = await transact(context, (tx) => startNext(context, tx, refused))
      if (!isMore) return
    } catch (error) {
      // A run that cannot be made is undone whole; the next turn passes its time over, and says why.
      if (!(error instanceof ApiFailure)) throw error
    }
  }
}

/** False: nothing is due. Another process that looks meanwhile takes another one. */
async function startNext(context: Context, tx: Tx, refused: Map<string, string>): Promise<boolean> {
  const { rows } = await sql<Due>`
    select install_id, action, schedules, next_at, passed_over from install_action
    where next_at is null or next_at <= ${tx.at} order by next_at nulls first limit 1
    for update skip locked`.execute(tx.db)
  const due = rows[0]
  if (!due) return false
  const install = await tx.db
    .selectFrom('install')
    .select(['id', 'app_id', 'status'])
    .where('id', '=', due.install_id)
    .executeTakeFirstOrThrow()
  const nextAt = nextOf(due.schedules, context.now())
  if (install.status === 'deprovisioned' || nextAt === null) {
    await forget(tx, due)
    return true
  }
  const isFirstLook = due.next_at === null
  const key = `${due.install_id}/${due.action}`
  const why = isFirstLook ? undefined : (refused.get(key) ?? (await whyNotNow(tx, install, due.action)))
  await tx.db
    .updateTable('install_action')
    .set({ next_at: nextAt, passed_over: why ?? null })
    .where('install_id', '=', due.install_id)
    .where('action', '=', due.action)
    .execute()
  if (isFirstLook) return true
  if (why !== undefined) {
    passOver(context, tx, due, why, nextAt)
    return true
  }
  try {
    const decide = () => ({ kind: 'action' as const, action: due.action })
    await createRun(context, tx, { install, decide, by: byServer(context) })
  } catch (error) {
    if (error instanceof ApiFailure) refused.set(key, error.message)
    throw error
  }
  return true
}

async function whyNotNow(
  tx: Tx,
  install: { id: string; status: string },
  action: string,
): Promise<string | undefined> {
  if (install.status !== 'active') return `the install is ${install.status}`
  const paused = await tx.db
    .selectFrom('agent')
    .select('id')
    .where('install_id', '=', install.id)
    .where('status', '=', 'enrolled')
    .where('paused_at', 'is not', null)
    .executeTakeFirst()
  if (paused) return 'the customer has paused the agent'
  const open = await tx.db
    .selectFrom('run')
    .innerJoin('step', 'step.run_id', 'run.id')
    .select('run.id')
    .where('run.install_id', '=', install.id)
    .where('run.kind', '=', 'action')
    .where('run.status', '=', anyOf(['queued', 'active']))
    .where('step.action', '=', action)
    .executeTakeFirst()
  return open && `its run ${open.id} has not ended`
}

/** Told once for as long as the reason stays the same: a schedule of minutes would fill the audit. */
function passOver(context: Context, tx: Tx, due: Due, why: string, nextAt: string): void {
  if (due.passed_over === why) return
  tx.audit(due.install_id, {
    actor: byServer(context).actor,
    action: 'action.passed_over',
    subject: { type: 'action', id: due.action },
    outcome: 'ok',
    manifestDigest: null,
    details: { due: due.next_at, why, next: nextAt },
  })
}

async function forget(tx: Tx, due: Due): Promise<void> {
  await tx.db
    .deleteFrom('install_action')
    .where('install_id', '=', due.install_id)
    .where('action', '=', due.action)
    .execute()
}
