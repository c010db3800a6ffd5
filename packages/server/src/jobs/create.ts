import { sql } from 'kysely'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'
import { leaseFromNow } from './leases.ts'
import { poolOf, signManifest, type JobPlan } from './sign-manifest.ts'
import { assignedFact } from './start.ts'

export interface PlannedJob {
  plan: JobPlan
  owner: { runId?: string; stepId?: string; buildId?: string }
}

export function createJob(context: Context, tx: Tx, plan: JobPlan, owner: PlannedJob['owner']): string {
  return createJobs(context, tx, [{ plan, owner }])[0]!
}

const FIRST_FENCE = 1

/**
 * Queues jobs, or gives them to the agents whose slots the caller had confirmed (`tx.slots`). Their manifests are
 * signed here, in the transaction of the decision that needs them.
 */
export function createJobs(context: Context, tx: Tx, planned: readonly PlannedJob[]): string[] {
  if (planned.length === 0) return []
  // Ids of one millisecond are in no order by themselves; the queue must keep the order of the plan.
  const ids = planned.map(() => context.newId('job')).toSorted()
  const jobs = planned.map((one, index) => makeJob(context, tx, ids[index]!, one))
  insertJobs(context, tx, jobs)
  for (const { id, plan, owner, pool, agentId, manifest_digest } of jobs) {
    const chain = chainOf(plan.installId)
    tx.audit(chain, {
      actor: { type: 'server', id: context.serverId },
      action: 'job.queued',
      subject: { type: 'job', id },
      outcome: 'ok',
      manifestDigest: manifest_digest,
      details: { kind: plan.kind, fence: FIRST_FENCE, ...owner },
    })
    if (agentId === null) tx.nudge(`pool:${pool}`)
    else
      tx.audit(
        chain,
        assignedFact(context, { id, agentId, manifestDigest: manifest_digest, fence: FIRST_FENCE }),
      )
  }
  return ids
}

type MadeJob = ReturnType<typeof makeJob>

function makeJob(context: Context, tx: Tx, id: string, { plan, owner }: PlannedJob) {
  const pool = poolOf(plan.role, plan.installId)
  const signed = signManifest(context, id, FIRST_FENCE, plan)
  const document = {
    text: signed.manifest,
    keyId: signed.manifest_key_id,
    signature: signed.manifest_signature,
  }
  const wanted = { kind: plan.kind, requires: signed.requires }
  const agentId = tx.slots.take(pool, wanted, { id, fence: FIRST_FENCE, document }) ?? null
  return { id, plan, owner, pool, agentId, ...signed }
}

function insertJobs(context: Context, tx: Tx, jobs: readonly MadeJob[]): void {
  const column = <V>(value: (job: MadeJob) => V) => jobs.map(value)
  tx.write(sql`
    insert into job (id, kind, pool, role, install_id, run_id, step_id, build_id, manifest, manifest_issued_at,
      manifest_key_id, manifest_signature, manifest_digest, agent_id, requires, status, assigned_at, lease_until, fence,
      created_at)
    select j.id, j.kind, j.pool, j.role, j.install_id, j.run_id, j.step_id, j.build_id, j.manifest, j.issued_at, j.key_id,
      j.signature, j.digest, j.agent_id, string_to_array(j.requires, ' '), case when j.agent_id is null then 'queued' else 'assigned' end,
      case when j.agent_id is not null then ${tx.at}::timestamptz end,
      case when j.agent_id is not null then ${leaseFromNow(context)} end, ${FIRST_FENCE}::int, ${tx.at}::timestamptz
    from unnest(
      ${column((j) => j.id)}::text[], ${column((j) => j.plan.kind)}::text[], ${column((j) => j.pool)}::text[],
      ${column((j) => j.plan.role)}::text[], ${column((j) => j.plan.installId)}::text[],
      ${column((j) => j.owner.runId ?? null)}::text[], ${column((j) => j.owner.stepId ?? null)}::text[],
      ${column((j) => j.owner.buildId ?? null)}::text[], ${column((j) => j.manifest)}::text[],
      ${column((j) => j.manifest_issued_at)}::timestamptz[], ${column((j) => j.manifest_key_id)}::text[],
      ${column((j) => j.manifest_signature)}::text[], ${column((j) => j.manifest_digest)}::text[],
      ${column((j) => j.agentId)}::text[], ${column((j) => j.requires.join(' '))}::text[])
      as j(id, kind, pool, role, install_id, run_id, step_id, build_id, manifest, issued_at, key_id, signature, digest,
        agent_id, requires)`)
}
