import type { Db } from '../store/database.ts'

interface Filter {
  installId: string
  after?: string | undefined
  limit: number
}

/** Newest first. */
export async function listDeploys(db: Db, { installId, after, limit }: Filter) {
  const rows = await db
    .selectFrom('deploy')
    .selectAll()
    .where('install_id', '=', installId)
    .$if(after !== undefined, (q) => q.where('id', '<', after!))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
  return rows.map((row) => ({
    id: row.id,
    installId: row.install_id,
    component: row.component,
    buildId: row.build_id,
    artifact: row.artifact_digest,
    runId: row.run_id,
    status: row.status,
    createdAt: row.created_at,
    finishedAt: row.finished_at,
  }))
}
