import { sql } from 'kysely'
import type { App } from '@tenon/core'
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

/** The same of many apps, in one statement: by the index, so that each costs one row and none its history. */
export async function newestVersions(
  db: Db,
  appIds: readonly string[],
): Promise<Map<string, { number: number; content: App }>> {
  const { rows } = await sql<{ app_id: string; number: number; content: App }>`
    select v.app_id, v.number, v.content from unnest(${appIds}::text[]) as a(id) cross join lateral (
      select app_id, number, content from app_version where app_id = a.id order by number desc limit 1
    ) as v`.execute(db)
  return new Map(rows.map(({ app_id, ...version }) => [app_id, version]))
}
