import { stepStates, type ActionOn } from '@tenon/core'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { cancelLocked } from '../jobs/control.ts'
import { actorOf, type Caller } from '../people/actor.ts'
import { type LockedRun, lockRun, lockJob } from '../store/locks.ts'
import { anyOf } from '../store/statements.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { activateNext, advance } from './advance.ts'
import { requireGateKept, type RunStep, allRepeated, loadSteps, reopen } from './deploy-gate.ts'
import { loadPlans, planKey } from './load.ts'
import { requireNothingNewer } from './newer-deploys.ts'

export async function cancelRun(context: Context, runId: string, caller: Caller): Promise<void> {
  await transact(context, async (tx) => {
    const run = await lockRun(tx, runId)
    if (!run) throw new ApiFailure('not_found', `there is no run ${runId}`)
    if (run.status !== 'queued' && run.status !== 'active')
      throw new ApiFailure('wrong_state', `run ${runId} has already ${run.status}`)
    if (run.cancel_requested_at) return
    tx.audit(run.install_id, {
      actor: actorOf(caller),
      action: 'run.cancel_requested',
      subject: { type: 'run', id: runId },
      outcome: 'ok',
      manifestDigest: null,
      details: {},
    })
    await tx.db.updateTable('run').set({ cancel_requested_at: tx.at }).where('id', '=', runId).execute()
    if (run.status === 'queued') {
      await tx.db
        .updateTable('run')
        .set({ status: 'canceled', finished_at: tx.at })
        .where('id', '=', runId)
        .execute()
      await tx.db
        .updateTable('step')
        .set({ status: 'canceled', finished_at: tx.at })
        .where('run_id', '=', runId)
        .execute()
      await tx.db
        .updateTable('deploy')
        .set({ status: 'canceled', finished_at: tx.at })
        .where('run_id', '=', runId)
        .execute()
      return tx.nudge(`run:${runId}`)
    }
    await tx.db
      .updateTable('step')
      .set({ status: 'canceled', finished_at: tx.at })
      .where('run_id', '=', runId)
      .where('kind', '=', anyOf(['agent', 'approval']))
      .where('status', '=', 'active')
      .execute()
    const jobs = await tx.db
      .selectFrom('job')
      .select('id')
      .where('run_id', '=', runId)
      .where('status', '=', anyOf(['queued', 'assigned', 'held', 'running', 'lost']))
      .execute()
    for (const { id } of jobs) {
      const job = await lockJob(tx, id)
      if (job && ['queued', 'assigned', 'held', 'running', 'lost'].includes(job.status))
        await cancelLocked(context, tx, job, caller)
    }
    const after = await lockRun(tx, runId)
    await advance(context, tx, after!)
  })
}

/** The step, what must be done again with it, and all that was canceled because of it: the run goes on. */
export async function retryStep(
  context: Context,
  runId: string,
  stepId: string,
  caller: Caller,
): Promise<void> {
  await changeStep(context, runId, stepId, async (tx, run, step) => {
    if (!stepStates.can(step.status, 'pending') || step.status === 'active')
      throw wrongState(step, 'only a failed or canceled one is retried')
    await repeatInTime(tx, run, ({ id, status }) => id === stepId || status === 'canceled')
    auditStep(tx, run, step, caller, 'step.retried', {})
    await goOn(context, tx, run)
  })
}

/** These steps and what goes with them, unless somebody has deployed something else there since. */
async function repeatInTime(tx: Tx, run: LockedRun, chosen: (step: RunStep) => boolean): Promise<void> {
  const again = allRepeated(await loadSteps(tx, [run.id]), chosen)
  await requireNothingNewer(tx, run, [...new Set(again.flatMap(({ component }) => component ?? []))])
  reopen(tx, again)
}

/** What depends on it goes on as if it had been done: somebody looked and says so. */
export async function skipStep(
  context: Context,
  runId: string,
  stepId: string,
  caller: Caller,
): Promise<void> {
  await changeStep(context, runId, stepId, async (tx, run, step) => {
    if (!stepStates.can(step.status, 'skipped'))
      throw wrongState(step, 'only one that waits or has failed is skipped')
    await requireGateKept(tx, runId, stepId, 'skipped')
    await endStep(tx, step, 'skipped', `skipped by ${caller.principal.name}`)
    if (step.kind === 'deploy') await withdrawQuestion(tx, step)
    await repeatInTime(tx, run, ({ status }) => status === 'canceled')
    auditStep(tx, run, step, caller, 'step.skipped', {})
    await goOn(context, tx, run)
  })
}

/** Nobody needs to decide about what is left out: the approval is looked at once more, and ends by itself. */
async function withdrawQuestion(tx: Tx, deploy: Step): Promise<void> {
  await tx.db
    .updateTable('step')
    .set({ status: 'pending', asked: null })
    .where('run_id', '=', deploy.run_id)
    .where('component', '=', deploy.component)
    .where('kind', '=', 'approval')
    .where('status', '=', 'active')
    .execute()
}

export async function cancelStep(
  context: Context,
  runId: string,
  stepId: string,
  caller: Caller,
): Promise<void> {
  await changeStep(context, runId, stepId, async (tx, run, step) => {
    if (step.status !== 'pending' && step.status !== 'active')
      throw wrongState(step, 'only one that waits or runs is canceled')
    auditStep(tx, run, step, caller, 'step.cancel_requested', {})
    const job = step.job_id === null ? undefined : await lockJob(tx, step.job_id)
    if (step.status === 'active' && job) return cancelLocked(context, tx, job, caller)
    await endStep(tx, step, 'canceled', `canceled by ${caller.principal.name}`)
    await advance(context, tx, run)
  })
}

export type StepDecision = { approve: true; digest: string | null } | { approve: false; reason: string }

/** Somebody's word on a deploy. Approving names the plan, or what would be deployed, as it was seen: it is good for no other. */
export async function decideStep(
  context: Context,
  runId: string,
  stepId: string,
  decision: StepDecision,
  caller: Caller,
): Promise<void> {
  await changeStep(context, runId, stepId, async (tx, run, step) => {
    if (step.kind !== 'approval' || step.status !== 'active')
      throw wrongState(step, 'only an approval that waits is decided')
    const plan = (await loadPlans(tx, [run.id])).get(planKey(run.id, step.component!))
    // A plan that was not kept has no digest; without a plan and without a question there is nothing to approve.
    const digest = plan ? plan.digest : step.asked?.digest
    if (decision.approve && decision.digest !== digest)
      throw new ApiFailure('wrong_state', 'this is not what waits for approval', {
        remedy: `Look at the newest: \`tenon runs show ${run.id}\`.`,
      })
    const [status, message] = decision.approve
      ? (['succeeded', `approved by ${caller.principal.name}`] as const)
      : (['canceled', `rejected by ${caller.principal.name}: ${decision.reason}`] as const)
    await endStep(tx, step, status, message)
    const action = decision.approve ? 'step.approved' : 'step.rejected'
    auditStep(tx, run, step, caller, action, {
      about: plan ? 'plan' : 'deploy',
      digest: digest ?? null,
      message,
    })
    await advance(context, tx, run)
  })
}

type Step = Awaited<ReturnType<typeof findStep>>

async function changeStep(
  context: Context,
  runId: string,
  stepId: string,
  change: (tx: Tx, run: LockedRun, step: Step) => Promise<void>,
): Promise<void> {
  await transact(context, async (tx) => {
    const run = await lockRun(tx, runId)
    if (!run) throw new ApiFailure('not_found', `there is no run ${runId}`)
    await change(tx, run, await findStep(tx, runId, stepId))
  })
}

async function findStep(tx: Tx, runId: string, stepId: string) {
  const step = await tx.db
    .selectFrom('step')
    .selectAll()
    .where('id', '=', stepId)
    .where('run_id', '=', runId)
    .executeTakeFirst()
  if (!step) throw new ApiFailure('not_found', `run ${runId} has no step ${stepId}`)
  return step
}

async function endStep(
  tx: Tx,
  step: Step,
  status: 'succeeded' | 'canceled' | 'skipped',
  message: string,
): Promise<void> {
  await tx.db
    .updateTable('step')
    .set({ status, message, finished_at: tx.at, not_before: null })
    .where('id', '=', step.id)
    .execute()
}

/** An ended run is queued again, behind whatever runs on the install now. */
async function goOn(context: Context, tx: Tx, run: LockedRun): Promise<void> {
  if (run.status === 'active') return advance(context, tx, run)
  await tx.db
    .updateTable('run')
    .set({ status: 'queued', cancel_requested_at: null, finished_at: null })
    .where('id', '=', run.id)
    .execute()
  await activateNext(context, tx, run.install_id)
}

function auditStep(
  tx: Tx,
  run: LockedRun,
  step: Step,
  caller: Caller,
  action: ActionOn<'step'>,
  details: { [key: string]: string | null },
): void {
  tx.audit(run.install_id, {
    actor: actorOf(caller),
    action,
    subject: { type: 'step', id: step.id },
    outcome: 'ok',
    manifestDigest: null,
    details: { run: run.id, key: step.key, ...details },
  })
}

function wrongState(step: Step, rule: string): ApiFailure {
  return new ApiFailure('wrong_state', `step ${step.key} is ${step.status}; ${rule}`)
}
