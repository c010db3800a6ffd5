import { jobStates, type AuditFact, type JobEndReason, type JobOutcome, type Json } from '@tenon/core'
import type { Context } from '../context.ts'
import type { Outputs } from '../store/schema.ts'
import type { Tx } from '../store/transaction.ts'
import { advance, lockRun } from './advance-run.ts'
import { chainOf } from './audit-chains.ts'

export interface Ending {
  outcome: JobOutcome
  reason: JobEndReason
  exitCode: number | null
  message: string
  result: { [key: string]: Json }
  outputs: Outputs
}

/** Every column but the manifest, which is large and not needed here. */
export type LockedJob = Awaited<ReturnType<typeof lockJob>> & object

/** The run is locked before the job, as everywhere; undefined when there is no such job. */
export async function lockJob(tx: Tx, jobId: string) {
  const owner = await tx.db.selectFrom('job').select('run_id').where('id', '=', jobId).executeTakeFirst()
  if (!owner) return undefined
  const run = owner.run_id ? await lockRun(tx, owner.run_id) : undefined
  const job = await tx.db
    .selectFrom('job')
    .select([
      'id',
      'kind',
      'pool',
      'role',
      'install_id',
      'status',
      'fence',
      'run_id',
      'step_id',
      'build_id',
      'agent_id',
      'manifest_digest',
      'cancel_requested_at',
    ])
    .where('id', '=', jobId)
    .forUpdate()
    .executeTakeFirstOrThrow()
  return { ...job, run }
}

/** The one place where a job ends: its row, its build or step, the audit entry, and what follows from it. */
export async function settleJob(
  context: Context,
  tx: Tx,
  job: LockedJob,
  ending: Ending,
  fact: Pick<AuditFact, 'actor'> & { details?: AuditFact['details'] },
): Promise<void> {
  if (!jobStates.can(job.status, ending.outcome))
    throw new Error(`job ${job.id} cannot go from ${job.status} to ${ending.outcome}`)
  await tx.db
    .updateTable('job')
    .set({
      status: ending.outcome,
      reason: ending.reason,
      exit_code: ending.exitCode,
      message: ending.message,
      result: JSON.stringify(ending.result),
      finished_at: tx.at,
      lease_until: null,
    })
    .where('id', '=', job.id)
    .execute()
  tx.audit(chainOf(job.install_id), {
    actor: fact.actor,
    action: `job.${ending.outcome}`,
    subject: { type: 'job', id: job.id },
    outcome: ending.outcome === 'succeeded' ? 'ok' : 'failed',
    manifestDigest: job.manifest_digest,
    details: {
      reason: ending.reason,
      exitCode: ending.exitCode,
      fence: job.fence,
      message: ending.message,
      ...fact.details,
    },
  })
  tx.nudge(`job:${job.id}`)
  if (job.build_id) await settleBuild(tx, job.build_id, ending)
  if (job.step_id && job.run) {
    await settleStep(tx, job.step_id, job.run, ending)
    await advance(context, tx, job.run)
  }
}

async function settleBuild(tx: Tx, buildId: string, ending: Ending): Promise<void> {
  const { digest, repository } = ending.result
  const made = ending.outcome === 'succeeded' && typeof digest === 'string' && typeof repository === 'string'
  const status = ending.outcome === 'succeeded' && !made ? 'failed' : ending.outcome
  await tx.db
    .updateTable('build')
    .set({
      status,
      message:
        status === 'failed' && ending.outcome === 'succeeded'
          ? 'the build job ended well but named no artifact'
          : ending.message,
      artifact_digest: made ? digest : null,
      artifact_repository: made ? repository : null,
      finished_at: tx.at,
    })
    .where('id', '=', buildId)
    .execute()
  tx.nudge(`build:${buildId}`)
}

async function settleStep(
  tx: Tx,
  stepId: string,
  run: { id: string; install_id: string },
  ending: Ending,
): Promise<void> {
  const step = await tx.db
    .updateTable('step')
    .set({ status: ending.outcome, message: ending.message, finished_at: tx.at })
    .where('id', '=', stepId)
    .where('status', '=', 'active')
    .returning(['kind', 'component'])
    .executeTakeFirst()
  if (!step?.component) return
  if (step.kind === 'deploy' || (step.kind === 'sync' && ending.outcome !== 'succeeded'))
    await settleDeploy(tx, run, step.component, ending, step.kind)
  if (step.kind === 'destroy' && ending.outcome === 'succeeded') {
    await tx.db
      .deleteFrom('install_component')
      .where('install_id', '=', run.install_id)
      .where('component', '=', step.component)
      .execute()
  }
}

async function settleDeploy(
  tx: Tx,
  run: { id: string; install_id: string },
  component: string,
  ending: Ending,
  kind: 'deploy' | 'sync',
): Promise<void> {
  const deploy = await tx.db
    .updateTable('deploy')
    .set({ status: ending.outcome, finished_at: tx.at })
    .where('run_id', '=', run.id)
    .where('component', '=', component)
    .returning(['build_id', 'artifact_repository', 'artifact_digest'])
    .executeTakeFirst()
  if (kind === 'sync' || !deploy) return
  const succeeded = ending.outcome === 'succeeded'
  await tx.db
    .updateTable('install_component')
    .set({
      status: succeeded ? 'deployed' : 'failed',
      ...(succeeded ? { ...deploy, outputs: JSON.stringify(ending.outputs), deployed_at: tx.at } : {}),
    })
    .where('install_id', '=', run.install_id)
    .where('component', '=', component)
    .execute()
}
