import type { Db } from '../store/database.ts'

/** Of an app that has one, as every app does from its first sync on. */
export function newestVersion(db: Db, appId: string) {
  return db
    .selectFrom('app_version')
    .selectAll()
    .where('app_id', '=', appId)
    .orderBy('number', 'desc')
    .limit(1)
    .executeTakeFirstOrThrow()
}
