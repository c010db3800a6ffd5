import { sql } from 'kysely'
import { notFound, ApiFailure } from '../errors.ts'
import type { Db } from '../store/database.ts'
import { newestVersions } from './newest-version.ts'

/** By name or id. */
export async function findApp(
  db: Db,
  ref: string,
): Promise<{ id: string; name: string; created_at: string }> {
  const row = await db
    .selectFrom('app')
    .selectAll()
    .where((eb) => eb.or([eb('name', '=', ref), eb('id', '=', ref)]))
    .executeTakeFirst()
  if (!row) throw notFound('app', ref)
  return row
}

interface Row {
  id: string
  name: string
  created_at: string
}

export function listApps(
  db: Db,
  { after, limit }: { after?: string | undefined; limit: number },
): Promise<Row[]> {
  return db
    .selectFrom('app')
    .selectAll()
    .$if(after !== undefined, (q) => q.where('id', '>', after!))
    .orderBy('id')
    .limit(limit)
    .execute()
}

export async function appView(db: Db, row: Row) {
  return (await appViews(db, [row]))[0]!
}

/** As many statements for one as for a page. */
export async function appViews(db: Db, rows: readonly Row[]) {
  if (rows.length === 0) return []
  const ids = rows.map(({ id }) => id)
  const [versions, builds] = await Promise.all([newestVersions(db, ids), newestDigests(db, ids)])
  return rows.map((row) => {
    const { number, content } = versions.get(row.id)!
    return {
      id: row.id,
      name: row.name,
      displayName: content.displayName,
      description: content.description,
      version: number,
      components: content.components.map(({ name, type, dependencies }) => ({
        name,
        type,
        dependencies,
        artifact: builds.get(`${row.id}/${name}`) ?? null,
      })),
      createdAt: row.created_at,
    }
  })
}

/** Of what was last built well, by app and component. */
async function newestDigests(db: Db, appIds: readonly string[]): Promise<Map<string, string | null>> {
  const { rows } = await sql<{ app_id: string; component: string; artifact_digest: string | null }>`
    select newest.* from unnest(${appIds}::text[]) as a(id) cross join lateral (
      select distinct on (component) app_id, component, artifact_digest from build
      where app_id = a.id and status = 'succeeded' order by component, id desc
    ) as newest`.execute(db)
  return new Map(rows.map((row) => [`${row.app_id}/${row.component}`, row.artifact_digest]))
}

/** Newest first; of those before `before`. */
export async function listVersions(db: Db, appId: string, before: number | undefined, limit: number) {
  const rows = await db
    .selectFrom('app_version')
    .select(['number', 'digest', 'created_at'])
    .where('app_id', '=', appId)
    .$if(before !== undefined, (q) => q.where('number', '<', before!))
    .orderBy('number', 'desc')
    .limit(limit)
    .execute()
  return rows.map(versionView)
}

export async function versionOf(db: Db, app: { id: string; name: string }, number: number) {
  const row = await db
    .selectFrom('app_version')
    .select(['number', 'digest', 'created_at', 'content'])
    .where('app_id', '=', app.id)
    .where('number', '=', number)
    .executeTakeFirst()
  if (!row)
    throw new ApiFailure('not_found', `app ${app.name} has no version ${number}`, {
      remedy: 'List them: `GET /api/v1/apps/:ref/versions`.',
    })
  return { ...versionView(row), app: row.content }
}

function versionView(row: { number: number; digest: string; created_at: string }) {
  return { number: row.number, digest: row.digest, createdAt: row.created_at }
}
