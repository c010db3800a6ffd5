import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { overdueSince } from './lapse.ts'

export interface Cancel {
  id: string
  fence: number
  agent_id: string
  /** It was held for too long; nobody asked for it to be canceled. */
  overdue: boolean
}

/** What these agents are to end, or not to begin any more. */
export async function cancelsFor(context: Context, agentIds: readonly string[]): Promise<Cancel[]> {
  const overdue = overdueSince(context)
  const { rows } = await sql<Cancel>`
    select id, fence, agent_id, false as overdue from job
    where agent_id = any(${agentIds}) and status in ('assigned', 'running') and cancel_requested_at is not null
    union all
    select job.id, job.fence, job.agent_id, start_before < ${overdue} from job_hold join job on job.id = job_hold.job_id
    where job_hold.agent_id = any(${agentIds})
      and (job.cancel_requested_at is not null or start_before < ${overdue})`.execute(context.db)
  return rows
}
