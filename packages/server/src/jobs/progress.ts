import type { Context } from '../context.ts'
import { anyOf } from '../store/statements.ts'
import type { Lease } from './leases.ts'

/** How far a job is, in its own words. */
export async function noteProgress(
  context: Context,
  { agentId, jobId, fence }: Lease,
  progress: { message: string; fraction: number | null },
): Promise<void> {
  const job = await context.db
    .updateTable('job')
    .set({ progress: JSON.stringify(progress) })
    .where('id', '=', jobId)
    .where('agent_id', '=', agentId)
    .where('fence', '=', fence)
    .where('status', '=', anyOf(['assigned', 'running']))
    .returning('run_id')
    .executeTakeFirst()
  if (job?.run_id) context.hub.nudge([`run:${job.run_id}`])
}
