import { sql } from 'kysely'
import type { Db } from '../store/database.ts'
import { type Lease, leaseOf } from './leases.ts'

/** Pools in which jobs wait for an agent. */
export async function poolsWithJobs(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('job').select('pool').distinct().where('status', '=', 'queued').execute()
  return rows.map(({ pool }) => pool)
}

/** The leases of those of these jobs that their agents have said nothing about yet. */
export async function stillAssigned(db: Db, jobIds: readonly string[]): Promise<Set<string>> {
  const { rows } = await sql<Lease>`
    select id as "jobId", fence, agent_id as "agentId" from job
    where id = any(${jobIds}) and status = 'assigned'`.execute(db)
  return new Set(rows.map(leaseOf))
}
