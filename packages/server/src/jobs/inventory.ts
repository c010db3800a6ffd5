import { reconcile, type Reconciliation } from '@tenon/core'
import type { AgentHello } from '@tenon/protocol'
import { sql } from 'kysely'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'
import { knownJobs } from './claim.ts'
import { requeueJob, endGoneJob } from './control.ts'
import { lapseJob } from './lapse.ts'
import { leaseFromNow } from './leases.ts'
import { reviveJob } from './revive.ts'

/** What an agent says it holds as it connects. */
export interface Told {
  agentId: string
  inventory: AgentHello['inventory']
}

/** Settles with each agent what both sides hold; the answers by agent. */
export async function settleInventories(
  context: Context,
  tx: Tx,
  told: readonly Told[],
): Promise<Map<string, Reconciliation>> {
  const known = await knownJobs(
    tx,
    told.map(({ agentId }) => agentId),
    told.flatMap(({ inventory }) => inventory.map((job) => job.jobId)),
  )
  const results = new Map<string, Reconciliation>()
  for (const { agentId, inventory } of told) {
    const named = new Set(inventory.map((job) => job.jobId))
    const mine = known.filter((job) => job.agentId === agentId || named.has(job.jobId))
    const result = reconcile(agentId, inventory, mine)
    results.set(agentId, result)
    for (const jobId of result.requeue)
      await requeueJob(context, tx, jobId, agentId, 'the agent never received it')
    for (const jobId of result.lapsed) await lapseJob(context, tx, jobId)
    for (const jobId of result.revived) await reviveJob(context, tx, jobId)
    for (const jobId of result.gone) await endGoneJob(context, tx, jobId, agentId)
  }
  const all = [...results.values()]
  // What is held has no lease: its agent says so once more, in signed words.
  const kept = told.flatMap(({ agentId, inventory }) => runningOf(inventory, results.get(agentId)!))
  const begun = all.flatMap((result) => result.begun)
  await keepJobs(context, tx, kept, begun)
  await auditRecovered(tx, [...all.flatMap(({ recover }) => recover), ...begun])
  return results
}

/** What the agent has and goes on with; what it says that it holds waits. */
export function runningOf(inventory: AgentHello['inventory'], { verdicts }: Reconciliation): string[] {
  const waiting = new Set(inventory.filter(({ state }) => state === 'held').map(({ jobId }) => jobId))
  return verdicts
    .filter(({ jobId, verdict }) => verdict !== 'forget' && !waiting.has(jobId))
    .map(({ jobId }) => jobId)
}

async function keepJobs(context: Context, tx: Tx, kept: string[], begun: string[]): Promise<void> {
  if (kept.length === 0) return
  await sql`
    update job set status = case when status in ('lost', 'held') then 'running' else status end,
      lease_until = ${leaseFromNow(context)}
    where id = any(${kept}) and (status in ('assigned', 'running', 'lost') or id = any(${begun}))`.execute(
    tx.db,
  )
  if (begun.length > 0) tx.write(sql`delete from job_hold where job_id = any(${begun})`)
}

async function auditRecovered(tx: Tx, recovered: string[]): Promise<void> {
  if (recovered.length === 0) return
  const rows = await tx.db
    .selectFrom('job')
    .select(['id', 'agent_id', 'fence', 'install_id', 'manifest_digest', 'run_id'])
    .where(sql<boolean>`id = any(${recovered})`)
    .orderBy('id')
    .execute()
  for (const row of rows) {
    tx.audit(chainOf(row.install_id), {
      actor: { type: 'agent', id: row.agent_id! },
      action: 'job.recovered',
      subject: { type: 'job', id: row.id },
      outcome: 'ok',
      manifestDigest: row.manifest_digest,
      details: { fence: row.fence },
    })
    if (row.run_id) tx.nudge(`run:${row.run_id}`)
  }
}
