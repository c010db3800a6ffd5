import {
  jobStates,
  type AgentRole,
  type AuditFact,
  type JobEndReason,
  type JobKind,
  type JobOutcome,
  type JobStatus,
  type Json,
  type OpenValue,
  type StepKind,
  type StepStatus,
} from '@tenon/core'
import { planOf } from '@tenon/protocol'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { Outputs } from '../store/schema.ts'
import type { Tx } from '../store/transaction.ts'
import { advanceRuns, lockRunsOfJobs, type Run } from '../runs/advance.ts'
import { chainOf } from '../audit/chains.ts'
import { retryFailedSteps } from '../runs/auto-retry.ts'
import { settlePlans } from '../runs/settle-plans.ts'

export interface Ending {
  outcome: JobOutcome
  reason: OpenValue<JobEndReason>
  exitCode: number | null
  message: string
  result: { [key: string]: Json }
  outputs: Outputs
}

/** Every column that an end needs, and what its step is about. */
export interface LockedJob {
  id: string
  kind: JobKind
  pool: string
  role: AgentRole
  install_id: string | null
  status: JobStatus
  fence: number
  run_id: string | null
  step_id: string | null
  build_id: string | null
  agent_id: string | null
  manifest_digest: string
  /** Where a build must push, by its manifest. */
  build_repository: string | null
  cancel_requested_at: string | null
  step_kind: StepKind | null
  step_status: StepStatus | null
  component: string | null
  step_key: string | null
  attempts: number | null
  max_auto_retries: number | null
  run: Run | undefined
}

export interface Settlement {
  job: LockedJob
  /** Told together with the end. */
  start?: { at: string; confinement: string } | undefined
  ending: Ending
  fact: Pick<AuditFact, 'actor'> & { details?: AuditFact['details'] }
}

/** Runs are locked before jobs, as everywhere; a job that is not in the answer does not exist. */
export async function lockJobs(tx: Tx, jobIds: readonly string[]): Promise<Map<string, LockedJob>> {
  if (jobIds.length === 0) return new Map()
  const [runs, jobs] = await Promise.all([
    lockRunsOfJobs(tx, jobIds),
    sql<Omit<LockedJob, 'run'>>`
      select job.id, job.kind, pool, role, install_id, job.status, fence, job.run_id, step_id, build_id, agent_id,
        manifest_digest, cancel_requested_at, step.kind as step_kind, step.status as step_status, step.component,
        case when build_id is not null then coalesce(manifest::jsonb #>> '{body,operations,0,config,repository}',
          manifest::jsonb #>> '{operations,0,config,repository}') end as build_repository,
        step.key as step_key, step.attempts, step.max_auto_retries
      from job left join step on step.id = job.step_id
      where job.id = any(${jobIds}) order by job.id for update of job`.execute(tx.db),
  ])
  const runById = new Map(runs.map((run) => [run.id, run]))
  return new Map(jobs.rows.map((row) => [row.id, { ...row, run: runById.get(row.run_id ?? '') }]))
}

export async function lockJob(tx: Tx, jobId: string): Promise<LockedJob | undefined> {
  return (await lockJobs(tx, [jobId])).get(jobId)
}

export async function settleJob(
  context: Context,
  tx: Tx,
  job: LockedJob,
  ending: Ending,
  fact: Settlement['fact'],
): Promise<void> {
  return settleJobs(context, tx, [{ job, ending, fact }])
}

/** The one place where jobs end: their rows, their builds or steps, the audit entries, and what follows from them. */
export async function settleJobs(
  context: Context,
  tx: Tx,
  settlements: readonly Settlement[],
): Promise<void> {
  if (settlements.length === 0) return
  for (const { job, ending } of settlements) {
    if (!jobStates.can(job.status, ending.outcome))
      throw new Error(`job ${job.id} cannot go from ${job.status} to ${ending.outcome}`)
  }
  endRows(tx, settlements)
  const held = settlements.filter(({ job }) => job.status === 'held').map(({ job }) => job.id)
  if (held.length > 0) tx.write(sql`delete from job_hold where job_id = any(${held})`)
  for (const settlement of settlements) {
    tx.audit(chainOf(settlement.job.install_id), factOf(settlement))
    tx.nudge(`job:${settlement.job.id}`)
  }
  settleBuilds(tx, settlements)
  const ofRuns = settlements.filter(({ job }) => job.step_id && job.run)
  if (ofRuns.length === 0) return
  await settleSteps(context, tx, ofRuns)
  await advanceRuns(context, tx, [...new Set(ofRuns.map(({ job }) => job.run!))])
}

function endRows(tx: Tx, settlements: readonly Settlement[]): void {
  const column = <V>(value: (ending: Ending) => V) => settlements.map(({ ending }) => value(ending))
  const starts = settlements.map(({ start }) => start)
  tx.write(sql`
    update job set status = e.status, reason = e.reason, exit_code = e.exit_code, message = e.message,
      result = e.result, finished_at = ${tx.at}, lease_until = null,
      started_at = coalesce(e.started_at, job.started_at), confinement = coalesce(e.confinement, job.confinement)
    from unnest(${settlements.map(({ job }) => job.id)}::text[], ${column((e) => e.outcome)}::text[],
      ${column((e) => e.reason)}::text[], ${column((e) => e.exitCode)}::int[], ${column((e) => e.message)}::text[],
      ${column((e) => JSON.stringify(e.result))}::jsonb[], ${starts.map((s) => s?.at ?? null)}::timestamptz[],
      ${starts.map((s) => s?.confinement ?? null)}::text[])
      as e(id, status, reason, exit_code, message, result, started_at, confinement)
    where job.id = e.id`)
}

function factOf({ job, ending, fact }: Settlement): AuditFact {
  return {
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
  }
}

function settleBuilds(tx: Tx, settlements: readonly Settlement[]): void {
  const builds = settlements.flatMap(({ job, ending }) =>
    job.build_id ? [{ id: job.build_id, ...buildEnding(job, ending) }] : [],
  )
  if (builds.length === 0) return
  tx.write(sql`
    update build set status = b.status, message = b.message, artifact_digest = b.digest,
      artifact_repository = b.repository, finished_at = ${tx.at}
    from unnest(${builds.map((b) => b.id)}::text[], ${builds.map((b) => b.status)}::text[],
      ${builds.map((b) => b.message)}::text[], ${builds.map((b) => b.digest)}::text[],
      ${builds.map((b) => b.repository)}::text[]) as b(id, status, message, digest, repository)
    where build.id = b.id`)
  for (const build of builds) tx.nudge(`build:${build.id}`)
}

/** Pure: a build that ended well has named its artifact, in the repository that it was told. */
function buildEnding({ build_repository: told }: LockedJob, { outcome, message, result }: Ending) {
  const { digest, repository } = result
  const none = { digest: null, repository: null }
  if (outcome !== 'succeeded') return { status: outcome, message, ...none }
  if (typeof digest !== 'string' || typeof repository !== 'string')
    return { status: 'failed', message: 'the build job ended well but named no artifact', ...none }
  if (repository === told) return { status: outcome, message, digest, repository }
  const where = `the build job named an artifact in ${repository}, but its manifest says ${told}`
  return { status: 'failed', message: `${where}; build again`, ...none }
}

interface SettledStep {
  kind: StepKind
  component: string
  run: Run
  jobId: string
  ending: Ending
}

/** Steps change only under the lock of their run, so that what was read after it holds. */
async function settleSteps(context: Context, tx: Tx, settlements: readonly Settlement[]): Promise<void> {
  const active = settlements.filter(({ job }) => job.step_status === 'active').map(asStep)
  tx.write(sql`
    update step set status = e.status, message = e.message, finished_at = ${tx.at}
    from unnest(${active.map(({ job }) => job.step_id)}::text[], ${active.map(({ ending }) => ending.outcome)}::text[],
      ${active.map(({ ending }) => ending.message)}::text[]) as e(id, status, message)
    where step.id = e.id`)
  const steps: SettledStep[] = active.flatMap(
    ({ job: { id: jobId, step_kind: kind, component, run }, ending }) =>
      component === null ? [] : [{ kind: kind!, component, run: run!, jobId, ending }],
  )
  const over = steps.filter(
    ({ kind, ending }) =>
      kind === 'deploy' || ((kind === 'sync' || kind === 'plan') && ending.outcome !== 'succeeded'),
  )
  if (over.length > 0) settleDeploys(tx, over)
  const gone = steps.filter(({ kind, ending }) => kind === 'destroy' && ending.outcome === 'succeeded')
  if (gone.length > 0) removeComponents(tx, gone)
  const plans = steps.filter(({ kind, ending }) => kind === 'plan' && ending.outcome === 'succeeded')
  await settlePlans(
    context,
    tx,
    plans.map((plan) => ({ ...plan, result: plan.ending.result })),
  )
  noteSecrets(tx, active)
  const failed = active.filter(({ ending }) => ending.outcome === 'failed')
  await retryFailedSteps(
    context,
    tx,
    failed.map(({ job, ending }) => ({ job, ending })),
  )
}

/** Pure: a plan step that ended well has named its plan, as a build has its artifact. */
function asStep({ job, ending }: Settlement): { job: LockedJob; ending: Ending } {
  const isPlan = job.step_kind !== 'plan' || ending.outcome !== 'succeeded' || planOf(ending.result)
  if (isPlan) return { job, ending }
  return {
    job,
    ending: { ...ending, outcome: 'failed', message: 'the plan job ended well but named no plan' },
  }
}

/** One that failed may have put some of them there. */
function noteSecrets(tx: Tx, active: readonly { job: LockedJob; ending: Ending }[]): void {
  const keeps = (of: LockedJob, { outcome }: Ending) => {
    if (of.step_kind === 'secrets') return true
    return of.step_kind === 'secrets-destroy' && outcome === 'succeeded' ? false : undefined
  }
  for (const { job, ending } of active) {
    const keepsSecrets = keeps(job, ending)
    if (keepsSecrets === undefined) continue
    tx.write(
      tx.db
        .updateTable('install')
        .set({ keeps_secrets: keepsSecrets })
        .where('id', '=', job.run!.install_id)
        .where('keeps_secrets', '!=', keepsSecrets),
    )
  }
}

function removeComponents(tx: Tx, gone: readonly SettledStep[]): void {
  tx.write(sql`
    delete from install_component as c
    using unnest(${gone.map((g) => g.run.install_id)}::text[], ${gone.map((g) => g.component)}::text[]) as g(install_id, component)
    where c.install_id = g.install_id and c.component = g.component`)
}

/** A failed sync or plan ends the deploy too, but leaves what is on the install as it was. */
function settleDeploys(tx: Tx, steps: readonly SettledStep[]): void {
  tx.write(sql`
    with ended as (
      update deploy set status = e.status, finished_at = ${tx.at}
      from unnest(${steps.map((s) => s.run.id)}::text[], ${steps.map((s) => s.component)}::text[],
        ${steps.map((s) => s.ending.outcome)}::text[], ${steps.map((s) => s.kind)}::text[],
        ${steps.map((s) => JSON.stringify(s.ending.outputs))}::jsonb[]) as e(run_id, component, status, kind, outputs)
      where deploy.run_id = e.run_id and deploy.component = e.component
      returning deploy.*, e.kind, e.outputs
    ), bad as (
      update install_component as c set status = 'failed' from ended
      where ended.kind = 'deploy' and ended.status <> 'succeeded'
        and c.install_id = ended.install_id and c.component = ended.component
    )
    update install_component as c set status = 'deployed', build_id = ended.build_id, outputs = ended.outputs, drift = null,
      artifact_repository = ended.artifact_repository, artifact_digest = ended.artifact_digest, deployed_at = ${tx.at}
    from ended
    where ended.kind = 'deploy' and ended.status = 'succeeded'
      and c.install_id = ended.install_id and c.component = ended.component`)
}
