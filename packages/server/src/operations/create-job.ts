import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'
import { poolOf, signManifest, type JobPlan } from './manifests.ts'
import { chainOf } from './audit-chains.ts'

export interface PlannedJob {
  plan: JobPlan
  owner: { runId?: string; stepId?: string; buildId?: string }
}

export function createJob(context: Context, tx: Tx, plan: JobPlan, owner: PlannedJob['owner']): string {
  return createJobs(context, tx, [{ plan, owner }])[0]!
}

/** Queues jobs: their manifests are signed here, in the transaction of the decision that needs them. */
export function createJobs(context: Context, tx: Tx, planned: readonly PlannedJob[]): string[] {
  if (planned.length === 0) return []
  // Ids of one millisecond are in no order by themselves; the queue must keep the order of the plan.
  const ids = planned.map(() => context.newId('job')).toSorted()
  const jobs = planned.map(({ plan, owner }, index) => {
    const id = ids[index]!
    return { id, plan, owner, pool: poolOf(plan.role, plan.installId), ...signManifest(context, id, 1, plan) }
  })
  const column = <V>(value: (job: (typeof jobs)[number]) => V) => jobs.map(value)
  tx.write(sql`
    insert into job (id, kind, pool, role, install_id, run_id, step_id, build_id, manifest, manifest_issued_at,
      manifest_key_id, manifest_signature, manifest_digest, status, fence, created_at)
    select j.*, 'queued', 1, ${tx.at}::timestamptz from unnest(
      ${column((j) => j.id)}::text[], ${column((j) => j.plan.kind)}::text[], ${column((j) => j.pool)}::text[],
      ${column((j) => j.plan.role)}::text[], ${column((j) => j.plan.installId)}::text[],
      ${column((j) => j.owner.runId ?? null)}::text[], ${column((j) => j.owner.stepId ?? null)}::text[],
      ${column((j) => j.owner.buildId ?? null)}::text[], ${column((j) => j.manifest)}::text[],
      ${column((j) => j.manifest_issued_at)}::timestamptz[], ${column((j) => j.manifest_key_id)}::text[], ${column((j) => j.manifest_signature)}::text[],
      ${column((j) => j.manifest_digest)}::text[]) as j`)
  for (const { id, plan, owner, pool, manifest_digest } of jobs) {
    tx.audit(chainOf(plan.installId), {
      actor: { type: 'server', id: context.serverId },
      action: 'job.queued',
      subject: { type: 'job', id },
      outcome: 'ok',
      manifestDigest: manifest_digest,
      details: { kind: plan.kind, fence: 1, ...owner },
    })
    tx.nudge(`pool:${pool}`)
  }
  return jobs.map((job) => job.id)
}
