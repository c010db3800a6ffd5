import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'
import { poolOf, signManifest, type JobPlan } from './manifests.ts'
import { chainOf } from './audit-chains.ts'

/** Queues a job: its manifest is signed here, in the transaction of the decision that needs it. */
export async function createJob(
  context: Context,
  tx: Tx,
  plan: JobPlan,
  owner: { runId?: string; stepId?: string; buildId?: string },
): Promise<string> {
  const id = context.newId('job')
  const pool = poolOf(plan.role, plan.installId)
  const signed = signManifest(context, id, 1, plan)
  await tx.db
    .insertInto('job')
    .values({
      id,
      kind: plan.kind,
      pool,
      role: plan.role,
      install_id: plan.installId,
      status: 'queued',
      fence: 1,
      run_id: owner.runId ?? null,
      step_id: owner.stepId ?? null,
      build_id: owner.buildId ?? null,
      ...signed,
      created_at: tx.at,
    })
    .execute()
  tx.audit(chainOf(plan.installId), {
    actor: { type: 'server', id: context.serverId },
    action: 'job.queued',
    subject: { type: 'job', id },
    outcome: 'ok',
    manifestDigest: signed.manifest_digest,
    details: { kind: plan.kind, fence: 1, ...owner },
  })
  tx.nudge(`pool:${pool}`)
  return id
}
