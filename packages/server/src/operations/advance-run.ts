import { advanceRun, installStates, type InstallStatus, type RunKind, type RunStatus } from '@tenon/core'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import type { Tx } from '../store/transaction.ts'
import { createJob } from './create-job.ts'
import { planJobOfStep } from './manifests.ts'
import { planSteps } from './plan-steps.ts'

type Run = {
  id: string
  install_id: string
  app_version_id: string
  kind: RunKind
  status: RunStatus
  cancel_requested_at: string | null
  started_at: string | null
}

/** Locks are taken in one order everywhere: run, install, step and job, audit head. */
export async function lockRun(tx: Tx, runId: string): Promise<Run | undefined> {
  return tx.db
    .selectFrom('run')
    .select(['id', 'install_id', 'app_version_id', 'kind', 'status', 'cancel_requested_at', 'started_at'])
    .where('id', '=', runId)
    .forUpdate()
    .executeTakeFirst()
}

/** Asks the core what may start next, starts it, and ends the run when nothing can move. The caller holds the run's lock. */
export async function advance(context: Context, tx: Tx, run: Run): Promise<void> {
  tx.nudge(`run:${run.id}`)
  if (run.status !== 'active') return
  for (;;) {
    const steps = await tx.db
      .selectFrom('step')
      .selectAll()
      .where('run_id', '=', run.id)
      .orderBy('position')
      .execute()
    const next = advanceRun(
      steps.map((s) => ({ key: s.key, dependsOn: s.depends_on, status: s.status })),
      run.cancel_requested_at !== null,
    )
    if (next.end) return endRun(context, tx, run, next.end, next.cancel)
    let again = false
    for (const key of next.start) {
      const step = steps.find((s) => s.key === key)!
      again = (await startStep(context, tx, run, step)) || again
    }
    if (!again) return
  }
}

type Step = {
  id: string
  key: string
  kind: Parameters<typeof planJobOfStep>[1]['kind']
  component: string | null
}

/** True when the step is already over, so that the run may go on at once. */
async function startStep(context: Context, tx: Tx, run: Run, step: Step): Promise<boolean> {
  if (step.kind === 'agent') {
    const agent = await tx.db
      .selectFrom('agent')
      .select('session_id')
      .where('install_id', '=', run.install_id)
      .where('status', '=', 'enrolled')
      .executeTakeFirst()
    const here = typeof agent?.session_id === 'string'
    await tx.db
      .updateTable('step')
      .set({ status: here ? 'succeeded' : 'active', started_at: tx.at, finished_at: here ? tx.at : null })
      .where('id', '=', step.id)
      .execute()
    return here
  }
  try {
    const plan = await planJobOfStep(tx, await subjectOf(tx, run, step))
    const jobId = plan && (await createJob(context, tx, plan, { runId: run.id, stepId: step.id }))
    await tx.db
      .updateTable('step')
      .set({ status: 'active', job_id: jobId ?? null, message: '', started_at: tx.at, finished_at: null })
      .where('id', '=', step.id)
      .execute()
    await markComponent(tx, run, step)
    return false
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error
    await tx.db
      .updateTable('step')
      .set({ status: 'failed', message: error.message, started_at: tx.at, finished_at: tx.at })
      .where('id', '=', step.id)
      .execute()
    return true
  }
}

/** From here on the component may be there in part, so that a teardown must look at it. */
async function markComponent(tx: Tx, run: Run, step: Step): Promise<void> {
  if (!step.component) return
  if (step.kind === 'sync') {
    await tx.db
      .updateTable('deploy')
      .set({ status: 'syncing' })
      .where('run_id', '=', run.id)
      .where('component', '=', step.component)
      .execute()
  }
  if (step.kind !== 'deploy') return
  const deploy = await tx.db
    .updateTable('deploy')
    .set({ status: 'deploying' })
    .where('run_id', '=', run.id)
    .where('component', '=', step.component)
    .returning(['build_id', 'artifact_repository', 'artifact_digest'])
    .executeTakeFirstOrThrow()
  await tx.db
    .insertInto('install_component')
    .values({ install_id: run.install_id, component: step.component, status: 'deploying', ...deploy })
    .onConflict((c) => c.columns(['install_id', 'component']).doUpdateSet({ status: 'deploying' }))
    .execute()
}

async function subjectOf(tx: Tx, run: Run, step: Step) {
  const install = await tx.db
    .selectFrom('install')
    .selectAll()
    .where('id', '=', run.install_id)
    .executeTakeFirstOrThrow()
  const { content } = await tx.db
    .selectFrom('app_version')
    .select('content')
    .where('id', '=', run.app_version_id)
    .executeTakeFirstOrThrow()
  const table = step.kind === 'destroy' ? ('install_component' as const) : ('deploy' as const)
  const artifact = step.component
    ? await tx.db
        .selectFrom(table)
        .select(['artifact_repository as repository', 'artifact_digest as digest'])
        .where('component', '=', step.component)
        .where('install_id', '=', run.install_id)
        .$if(table === 'deploy', (q) => q.where('run_id' as never, '=', run.id as never))
        .executeTakeFirst()
    : undefined
  return { kind: step.kind, component: step.component, install, app: content, artifact }
}

async function endRun(
  context: Context,
  tx: Tx,
  run: Run,
  end: 'succeeded' | 'failed' | 'canceled',
  cancel: string[],
): Promise<void> {
  if (cancel.length > 0) {
    await tx.db
      .updateTable('step')
      .set({ status: 'canceled', finished_at: tx.at })
      .where('run_id', '=', run.id)
      .where('key', 'in', cancel)
      .execute()
  }
  await tx.db
    .updateTable('deploy')
    .set({ status: 'canceled', finished_at: tx.at })
    .where('run_id', '=', run.id)
    .where('status', 'in', ['pending', 'syncing', 'deploying'])
    .execute()
  await tx.db.updateTable('run').set({ status: end, finished_at: tx.at }).where('id', '=', run.id).execute()
  tx.audit(run.install_id, {
    actor: { type: 'server', id: context.serverId },
    action: 'run.ended',
    subject: { type: 'run', id: run.id },
    outcome: end === 'succeeded' ? 'ok' : 'failed',
    manifestDigest: null,
    details: { kind: run.kind, status: end },
  })
  await settleInstall(context, tx, run, end)
  await activateNext(context, tx, run.install_id)
}

async function settleInstall(context: Context, tx: Tx, run: Run, end: RunStatus): Promise<void> {
  const to = installStatusAfter(run.kind, end)
  const { status } = await tx.db
    .selectFrom('install')
    .select('status')
    .where('id', '=', run.install_id)
    .forUpdate()
    .executeTakeFirstOrThrow()
  if (!to || !installStates.can(status, to)) return
  await tx.db.updateTable('install').set({ status: to }).where('id', '=', run.install_id).execute()
  if (to === 'deprovisioned') {
    const revoked = await tx.db
      .updateTable('agent')
      .set({ status: 'revoked' })
      .where('install_id', '=', run.install_id)
      .where('status', '=', 'enrolled')
      .returning('id')
      .execute()
    for (const { id } of revoked) {
      tx.audit(run.install_id, {
        actor: { type: 'server', id: context.serverId },
        action: 'agent.revoked',
        subject: { type: 'agent', id },
        outcome: 'ok',
        manifestDigest: null,
        details: { run: run.id },
      })
      tx.nudge(`agent:${id}`)
    }
  }
}

function installStatusAfter(kind: RunKind, end: RunStatus): InstallStatus | undefined {
  if (kind === 'provision') return end === 'succeeded' ? 'active' : 'failed'
  if (kind === 'deprovision') return end === 'succeeded' ? 'deprovisioned' : 'failed'
  return undefined
}

/** While it waited, the runs ahead may have deployed more: everything that is there now must go. */
async function planAgain(context: Context, tx: Tx, run: Run): Promise<void> {
  const { content } = await tx.db
    .selectFrom('app_version')
    .select('content')
    .where('id', '=', run.app_version_id)
    .executeTakeFirstOrThrow()
  const install = await tx.db
    .selectFrom('install')
    .select(['id', 'sandbox_type'])
    .where('id', '=', run.install_id)
    .executeTakeFirstOrThrow()
  await tx.db.deleteFrom('step').where('run_id', '=', run.id).execute()
  await planSteps(context, tx, run.id, install, { kind: 'deprovision' }, content)
}

/** One change at a time on an install: the oldest queued run starts when none is active. The caller may hold other runs. */
export async function activateNext(context: Context, tx: Tx, installId: string): Promise<void> {
  await tx.db.selectFrom('install').select('id').where('id', '=', installId).forUpdate().execute()
  const active = await tx.db
    .selectFrom('run')
    .select('id')
    .where('install_id', '=', installId)
    .where('status', '=', 'active')
    .executeTakeFirst()
  if (active) return
  const next = await tx.db
    .selectFrom('run')
    .select('id')
    .where('install_id', '=', installId)
    .where('status', '=', 'queued')
    .orderBy('id')
    .executeTakeFirst()
  const run = next && (await lockRun(tx, next.id))
  if (!run || run.status !== 'queued') return
  await tx.db
    .updateTable('run')
    .set({ status: 'active', started_at: tx.at })
    .where('id', '=', run.id)
    .execute()
  const to: InstallStatus | undefined =
    run.kind === 'provision' ? 'provisioning' : run.kind === 'deprovision' ? 'deprovisioning' : undefined
  if (to) await tx.db.updateTable('install').set({ status: to }).where('id', '=', installId).execute()
  if (run.kind === 'deprovision' && run.started_at === null) await planAgain(context, tx, run)
  await advance(context, tx, { ...run, status: 'active' })
}
