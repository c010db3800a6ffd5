import { sql } from 'kysely'
import type { AppFollower, InstallFollower } from '../ground/followers.ts'
import { scheduleActions } from './actions.ts'

/** A newer version of an app may have other schedules. */
export const rescheduleActions: AppFollower = {
  synced: (context, tx, app) => scheduleActions(context, tx, app),
}

export const scheduleOfInstalls: InstallFollower = {
  created: (context, tx, { id, app }) => scheduleActions(context, tx, app, id),
  deleted: (tx, installId) => tx.write(sql`delete from install_action where install_id = ${installId}`),
}
