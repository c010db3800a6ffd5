import { advanceRun, type StepState } from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { EndedRun } from '../ground/followers.ts'
import { lockNextRuns, type LockedRun } from '../store/locks.ts'
import type { Tx } from '../store/transaction.ts'
import type { StartingStep } from './load.ts'
import { planSteps } from './plan-steps.ts'
import { startSteps } from './start-steps.ts'

export async function advance(context: Context, tx: Tx, run: LockedRun): Promise<void> {
  return advanceRuns(context, tx, [run])
}

/** Asks the core what may start next, starts it, and ends the runs in which nothing can move. The caller holds their locks. */
export async function advanceRuns(context: Context, tx: Tx, runs: readonly LockedRun[]): Promise<void> {
  for (const run of runs) tx.nudge(`run:${run.id}`)
  const ended: Ended[] = []
  let moving = runs.filter((run) => run.status === 'active')
  while (moving.length > 0) {
    const steps = await stepsOf(tx, moving)
    const starting: StartingStep[] = []
    for (const run of moving) {
      const own = steps.filter((step) => step.run_id === run.id)
      const next = advanceRun(own.map(stateOf), run.cancel_requested_at !== null, {
        nowMs: context.now(),
        atOnce: context.config.runParallel,
      })
      if (next.end) ended.push({ run, end: next.end, cancel: next.cancel })
      for (const key of next.start) starting.push({ run, step: own.find((s) => s.key === key)! })
    }
    const over = await startSteps(context, tx, starting)
    moving = moving.filter((run) => over.has(run.id))
  }
  if (ended.length > 0) await endRuns(context, tx, ended)
}

function stateOf(step: StepRow): StepState {
  return {
    key: step.key,
    dependsOn: step.depends_on,
    status: step.status,
    isIdle: step.kind === 'approval',
    ...(step.not_before === null ? {} : { notBeforeMs: Date.parse(step.not_before) }),
  }
}

type StepRow = Awaited<ReturnType<typeof stepsOf>>[number]

async function stepsOf(tx: Tx, runs: readonly LockedRun[]) {
  const ids = runs.map((run) => run.id)
  return tx.db
    .selectFrom('step')
    .select(['id', 'run_id', 'key', 'kind', 'component', 'action', 'depends_on', 'status', 'not_before'])
    .where(sql<boolean>`run_id = any(${ids})`)
    .orderBy('position')
    .execute()
}

type Ended = EndedRun & { cancel: string[] }

async function endRuns(context: Context, tx: Tx, ended: readonly Ended[]): Promise<void> {
  const ids = ended.map(({ run }) => run.id)
  const canceled = ended.flatMap(({ run, cancel }) => cancel.map((key) => ({ run: run.id, key })))
  if (canceled.length > 0) {
    tx.write(sql`
      update step set status = 'canceled', finished_at = ${tx.at}
      from unnest(${canceled.map((c) => c.run)}::text[], ${canceled.map((c) => c.key)}::text[]) as c(run_id, key)
      where step.run_id = c.run_id and step.key = c.key`)
  }
  tx.write(sql`
    update deploy set status = 'canceled', finished_at = ${tx.at}
    where run_id = any(${ids}) and status in ('pending', 'syncing', 'deploying')`)
  tx.write(sql`
    update run set status = e.status, finished_at = ${tx.at}
    from unnest(${ids}::text[], ${ended.map(({ end }) => end)}::text[]) as e(id, status)
    where run.id = e.id`)
  for (const { run, end } of ended) {
    tx.audit(run.install_id, {
      actor: { type: 'server', id: context.serverId },
      action: 'run.ended',
      subject: { type: 'run', id: run.id },
      outcome: end === 'succeeded' ? 'ok' : 'failed',
      manifestDigest: null,
      details: { kind: run.kind, status: end },
    })
  }
  const installs = [...new Set(ended.map(({ run }) => run.install_id))].toSorted()
  const { statuses, next } = await lockNextRuns(tx, installs)
  await context.followers.runs.ended(context, tx, ended, statuses)
  await activate(context, tx, next)
}

/** While it waited, the runs ahead may have deployed more: everything that is there now must go. */
async function planAgain(context: Context, tx: Tx, run: LockedRun): Promise<void> {
  const { content } = await tx.db
    .selectFrom('app_version')
    .select('content')
    .where('id', '=', run.app_version_id)
    .executeTakeFirstOrThrow()
  const install = await tx.db
    .selectFrom('install')
    .select(['id', 'app_id'])
    .where('id', '=', run.install_id)
    .executeTakeFirstOrThrow()
  await tx.db.deleteFrom('step').where('run_id', '=', run.id).execute()
  await planSteps(context, tx, run.id, install, { kind: 'deprovision' }, content)
}

/** One change at a time on an install: the oldest queued run starts when none is active. The caller may hold other runs. */
export async function activateNext(context: Context, tx: Tx, installId: string): Promise<void> {
  const { next } = await lockNextRuns(tx, [installId])
  await activate(context, tx, next)
}

async function activate(context: Context, tx: Tx, next: readonly LockedRun[]): Promise<void> {
  if (next.length === 0) return
  tx.write(sql`
    update run set status = 'active', started_at = ${tx.at} where id = any(${next.map((run) => run.id)})`)
  context.followers.runs.started(tx, next)
  for (const run of next)
    if (run.kind === 'deprovision' && run.started_at === null) await planAgain(context, tx, run)
  await advanceRuns(
    context,
    tx,
    next.map((run) => ({ ...run, status: 'active' as const })),
  )
}
