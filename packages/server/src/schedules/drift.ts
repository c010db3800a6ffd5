import { sql } from 'kysely'
import { newestVersion } from '../apps/newest-version.ts'
import type { Context } from '../context.ts'
import { nextTime } from '../ground/cron.ts'
import { byServer } from '../people/actor.ts'
import { setDriftChecks } from '../runs/components.ts'
import { createRun } from '../runs/create.ts'
import { settingsOf } from '../runs/plans-ended.ts'
import { anyOf } from '../store/statements.ts'
import { transact, type Tx } from '../store/transaction.ts'

const AT_ONCE = 50

interface Due {
  install_id: string
  component: string
}

/** Looks whether what is due still is as it was deployed. An install on which something runs is looked at the next time. */
export async function checkDrift(context: Context): Promise<void> {
  await transact(context, async (tx) => {
    const { rows } = await sql<Due>`
      select install_id, component from install_component
      where drift_check_at <= ${tx.at} order by drift_check_at limit ${AT_ONCE} for update skip locked`.execute(
      tx.db,
    )
    for (const installId of new Set(rows.map((row) => row.install_id))) {
      const components = rows.filter((row) => row.install_id === installId).map((row) => row.component)
      await checkInstall(context, tx, installId, components)
    }
  })
}

async function checkInstall(
  context: Context,
  tx: Tx,
  installId: string,
  components: string[],
): Promise<void> {
  const install = await tx.db
    .selectFrom('install')
    .selectAll()
    .where('id', '=', installId)
    .executeTakeFirstOrThrow()
  const { content } = await newestVersion(tx.db, install.app_id)
  const checks = components.map((component) => {
    const schedule = settingsOf(content, component)?.driftSchedule
    return { component, at: schedule === undefined ? null : nextTime(schedule, context.now()) }
  })
  setDriftChecks(tx, installId, checks)
  const open = await tx.db
    .selectFrom('run')
    .select('id')
    .where('install_id', '=', installId)
    .where('status', '=', anyOf(['queued', 'active']))
    .executeTakeFirst()
  if (open || install.status !== 'active') return
  await createRun(context, tx, {
    install,
    decide: () => ({ kind: 'drift', components }),
    by: byServer(context),
  })
}
