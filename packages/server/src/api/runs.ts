import { stepStates } from '@tenon/core'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { activateNext, advance, lockRun } from '../operations/advance-run.ts'
import { actorOf, type Caller } from '../operations/actor.ts'
import { cancelLocked } from '../operations/job-control.ts'
import { lockJob } from '../operations/settle-job.ts'
import { transact } from '../store/transaction.ts'
import { runView, runViews } from '../store/views.ts'
import { notFound, pageOf, type Handlers } from './handler.ts'
import { findInstall } from './installs.ts'
import { watchRun } from './streams.ts'

export const runHandlers = {
  'runs.list': async ({ context, query }) => {
    const install = query.install === undefined ? undefined : await findInstall(context.db, query.install)
    const rows = await context.db
      .selectFrom('run')
      .innerJoin('install', 'install.id', 'run.install_id')
      .selectAll('run')
      .select('install.name as install')
      .$if(install !== undefined, (q) => q.where('run.install_id', '=', install!.id))
      .$if(query.after !== undefined, (q) => q.where('run.id', '<', query.after!))
      .orderBy('run.id', 'desc')
      .limit(query.limit + 1)
      .execute()
    const page = pageOf(rows, query.limit, (row) => row)
    return { items: await runViews(context.db, page.items), next: page.next }
  },
  'runs.get': async ({ context, params }) => requireRun(context, params.id),
  'runs.watch': async ({ context, params, reply }) => {
    await requireRun(context, params.id)
    await watchRun(context, params.id, reply)
  },
  'runs.cancel': async ({ context, params, caller }) => {
    await cancelRun(context, params.id, caller)
    return requireRun(context, params.id)
  },
  'steps.retry': async ({ context, params, caller }) => {
    await retryStep(context, params.id, params.step, caller)
    return requireRun(context, params.id)
  },
} satisfies Partial<Handlers>

async function requireRun(context: Context, id: string) {
  const view = await runView(context.db, id)
  if (!view) throw notFound('run', id)
  return view
}

async function cancelRun(context: Context, runId: string, caller: Caller): Promise<void> {
  await transact(context, async (tx) => {
    const run = await lockRun(tx, runId)
    if (!run) throw notFound('run', runId)
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
      .where('kind', '=', 'agent')
      .where('status', '=', 'active')
      .execute()
    const jobs = await tx.db
      .selectFrom('job')
      .select('id')
      .where('run_id', '=', runId)
      .where('status', 'in', ['queued', 'assigned', 'running', 'lost'])
      .execute()
    for (const { id } of jobs) {
      const job = await lockJob(tx, id)
      if (job && ['queued', 'assigned', 'running', 'lost'].includes(job.status))
        await cancelLocked(context, tx, job, caller)
    }
    const after = await lockRun(tx, runId)
    await advance(context, tx, after!)
  })
}

/** The step, and all that was canceled because of it, gets another chance; the run goes on. */
async function retryStep(context: Context, runId: string, stepId: string, caller: Caller): Promise<void> {
  await transact(context, async (tx) => {
    const run = await lockRun(tx, runId)
    if (!run) throw notFound('run', runId)
    const step = await tx.db
      .selectFrom('step')
      .selectAll()
      .where('id', '=', stepId)
      .where('run_id', '=', runId)
      .executeTakeFirst()
    if (!step) throw new ApiFailure('not_found', `run ${runId} has no step ${stepId}`)
    if (!stepStates.can(step.status, 'pending'))
      throw new ApiFailure(
        'wrong_state',
        `step ${step.key} is ${step.status}; only a failed or canceled one is retried`,
      )
    await tx.db
      .updateTable('step')
      .set({ status: 'pending', job_id: null, message: '', started_at: null, finished_at: null })
      .where('run_id', '=', runId)
      .where((eb) => eb.or([eb('id', '=', stepId), eb('status', '=', 'canceled')]))
      .execute()
    await tx.db
      .updateTable('deploy')
      .set({ status: 'pending', finished_at: null })
      .where('run_id', '=', runId)
      .where('status', 'in', ['failed', 'canceled'])
      .execute()
    tx.audit(run.install_id, {
      actor: actorOf(caller),
      action: 'step.retried',
      subject: { type: 'step', id: stepId },
      outcome: 'ok',
      manifestDigest: null,
      details: { run: runId, key: step.key },
    })
    if (run.status === 'active') return advance(context, tx, run)
    await tx.db
      .updateTable('run')
      .set({ status: 'queued', cancel_requested_at: null, finished_at: null })
      .where('id', '=', runId)
      .execute()
    await activateNext(context, tx, run.install_id)
  })
}
