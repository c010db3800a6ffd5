import type { OwnFact } from '@tenon/core'
import { sql } from 'kysely'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { ownerOf } from '../ground/followers.ts'
import type { Tx } from '../store/transaction.ts'
import { leaseFromNow } from './leases.ts'

/** An agent's word that a job of its runs. */
export interface Started {
  agentId: string
  jobId: string
  fence: number
  at: string
  confinement: string
}

/** A word about a job that is another's by now, or that has ended, changes nothing. One may run by its agent's inventory. */
export async function startJobs(context: Context, tx: Tx, started: readonly Started[]): Promise<void> {
  if (started.length === 0) return
  const column = <K extends keyof Started>(name: K) => started.map((s) => s[name])
  const { rows } = await sql<StartedRow>`
    with running as (
      update job set status = 'running', started_at = s.at, confinement = s.confinement,
        lease_until = ${leaseFromNow(context)}
      from unnest(${column('jobId')}::text[], ${column('agentId')}::text[], ${column('fence')}::int[],
        ${column('at')}::timestamptz[], ${column('confinement')}::text[]) as s(id, agent_id, fence, at, confinement)
      where job.id = s.id and job.agent_id = s.agent_id and job.fence = s.fence
        and (job.status in ('assigned', 'held', 'lost') or (job.status = 'running' and job.started_at is null))
      returning job.id, job.agent_id, job.fence, job.confinement, install_id, run_id, step_id, build_id, manifest_digest
    ), unheld as (
      delete from job_hold using running where job_hold.job_id = running.id
    )
    select * from running order by id`.execute(tx.db)
  for (const [owner, follower] of Object.entries(context.followers.jobs)) {
    const own = rows.filter((row) => ownerOf(row) === owner)
    if (own.length > 0) follower.started(tx, own)
  }
  for (const row of rows) {
    tx.audit(chainOf(row.install_id), startedFact(row))
    tx.nudge(`job:${row.id}`)
    if (row.run_id) tx.nudge(`run:${row.run_id}`)
  }
}

export function assignedFact(
  { serverId }: Pick<Context, 'serverId'>,
  job: { id: string; agentId: string; manifestDigest: string; fence: number | string },
): OwnFact<'job'> {
  const { id, agentId, manifestDigest, fence } = job
  return {
    actor: { type: 'server', id: serverId },
    action: 'job.assigned',
    subject: { type: 'job', id },
    outcome: 'ok',
    manifestDigest,
    details: { agentId, fence },
  }
}

export function startedFact(
  job: Pick<StartedRow, 'id' | 'agent_id' | 'fence' | 'confinement' | 'manifest_digest'>,
): OwnFact<'job'> {
  return {
    actor: { type: 'agent', id: job.agent_id },
    action: 'job.started',
    subject: { type: 'job', id: job.id },
    outcome: 'ok',
    manifestDigest: job.manifest_digest,
    details: { fence: job.fence, confinement: job.confinement },
  }
}

interface StartedRow {
  id: string
  agent_id: string
  fence: number
  confinement: string
  install_id: string | null
  run_id: string | null
  step_id: string | null
  build_id: string | null
  manifest_digest: string
}
