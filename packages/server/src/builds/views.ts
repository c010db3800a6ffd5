import { notFound } from '../errors.ts'
import type { Db } from '../store/database.ts'
import { anyOf } from '../store/statements.ts'

interface Filter {
  appId?: string | undefined
  after?: string | undefined
  limit: number
}

/** Newest first. */
export async function listBuilds(db: Db, { appId, after, limit }: Filter): Promise<{ id: string }[]> {
  return db
    .selectFrom('build')
    .select('id')
    .$if(appId !== undefined, (q) => q.where('app_id', '=', appId!))
    .$if(after !== undefined, (q) => q.where('id', '<', after!))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}

export async function buildView(db: Db, id: string) {
  const [view] = await buildViews(db, [id])
  if (!view) throw notFound('build', id)
  return view
}

/** In the order of the ids; one that does not exist is left out. */
export async function buildViews(db: Db, ids: readonly string[]) {
  if (ids.length === 0) return []
  const rows = await db
    .selectFrom('build')
    .innerJoin('app', 'app.id', 'build.app_id')
    .innerJoin('app_version', 'app_version.id', 'build.app_version_id')
    .selectAll('build')
    .select(['app.name as app', 'app_version.number as version'])
    .where('build.id', '=', anyOf(ids))
    .execute()
  const byId = new Map(rows.map((row) => [row.id, row]))
  return ids.flatMap((id) => {
    const row = byId.get(id)
    if (!row) return []
    return {
      id: row.id,
      app: row.app,
      appVersion: row.version,
      component: row.component,
      status: row.status,
      jobId: row.job_id,
      artifact: row.artifact_digest,
      message: row.message,
      createdAt: row.created_at,
      finishedAt: row.finished_at,
    }
  })
}
