import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { Db } from '../store/statements.ts'

/** Agents that have yet to end what was canceled. What is held is in no index of `job`, which is long. */
export const CANCELED = `
    select agent_id as id from job where status in ('assigned', 'running') and cancel_requested_at is not null
    union
    select job.agent_id from job_hold join job on job.id = job_hold.job_id where job.cancel_requested_at is not null`

/** Agents that have something to hear: a cancel, a secret, or that they are connected elsewhere or no longer wanted. */
export async function agentsToAddress(context: Context, connectedHere: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    ${sql.raw(CANCELED)}
    union
    select agent.id from install_secret join agent on agent.install_id = install_secret.install_id
      where install_secret.delivered_at is null
    union
    select id from agent where id = any(${connectedHere}::text[])
      and (status <> 'enrolled' or process_id <> ${context.processId})`.execute(context.db)
  return rows.map(({ id }) => id)
}

export interface Standing {
  id: string
  status: 'enrolled' | 'replaced' | 'revoked'
  session_id: string | null
  boot_counter: number
}

/** What became of these agents, by id. */
export async function standingsOf(db: Db, agentIds: readonly string[]): Promise<Map<string, Standing>> {
  const { rows } = await sql<Standing>`
    select id, status, session_id, boot_counter from agent where id = any(${agentIds})`.execute(db)
  return new Map(rows.map((row) => [row.id, row]))
}
