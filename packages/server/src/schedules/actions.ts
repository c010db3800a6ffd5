import { scheduledActions, type App } from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { nextTime } from '../ground/cron.ts'
import type { Tx } from '../store/transaction.ts'

/**
 * When the actions of an app are due next, on all of its installs or on one. What has the same schedules as before
 * keeps its time. The caller holds the app's row, so that no other version comes between.
 */
export async function scheduleActions(
  context: Context,
  tx: Tx,
  app: { id: string; content: App },
  installId: string | null = null,
): Promise<void> {
  const wanted = scheduledActions(app.content).flatMap(({ name, schedules }) => {
    const nextAt = nextOf(schedules, context.now())
    return nextAt === null ? [] : [{ name, schedules: JSON.stringify(schedules), nextAt }]
  })
  const names = wanted.map(({ name }) => name)
  await sql`
    delete from install_action using install
    where install.id = install_action.install_id and install.app_id = ${app.id}
      and (${installId}::text is null or install.id = ${installId}) and action <> all(${names}::text[])`.execute(
    tx.db,
  )
  if (wanted.length === 0) return
  await sql`
    insert into install_action (install_id, action, schedules, next_at)
    select install.id, w.action, w.schedules, w.next_at
    from install cross join unnest(${names}::text[], ${wanted.map((w) => w.schedules)}::jsonb[],
      ${wanted.map((w) => w.nextAt)}::timestamptz[]) as w(action, schedules, next_at)
    where install.app_id = ${app.id} and install.status <> 'deprovisioned'
      and (${installId}::text is null or install.id = ${installId})
    on conflict (install_id, action) do update
      set schedules = excluded.schedules, next_at = excluded.next_at, passed_over = null
      where install_action.schedules <> excluded.schedules`.execute(tx.db)
}

/** The first time of any of the schedules after `nowMs`. */
export function nextOf(schedules: readonly string[], nowMs: number): string | null {
  const times = schedules.map((schedule) => nextTime(schedule, nowMs)).filter((time) => time !== null)
  return times.toSorted()[0] ?? null
}
