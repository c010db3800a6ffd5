import type { Db } from '../store/database.ts'

/** Pools in which jobs wait for an agent. */
export async function poolsWithJobs(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('job').select('pool').distinct().where('status', '=', 'queued').execute()
  return rows.map(({ pool }) => pool)
}
