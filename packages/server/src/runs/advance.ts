import {
  advanceRun,
  installStates,
  type InstallStatus,
  type RunKind,
  type RunStatus,
  type StepState,
} from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'
import { planSteps } from './plan-steps.ts'
import { startSteps } from './start-steps.ts'
import type { StartingStep } from './load.ts'

export type Run = {
  id: string
  install_id: string
  app_version_id: string
  kind: RunKind
  status: RunStatus
  cancel_requested_at: string | null
  started_at: string | null
}

/** Locks are taken in one order everywhere: runs, installs, steps and jobs, audit heads; several of a kind by their id. */
export async function lockRuns(tx: Tx, runIds: readonly string[]): Promise<Run[]> {
  if (runIds.length === 0) return []
  const { rows } = await sql<Run>`
    select id, install_id, app_version_id, kind, status, cancel_requested_at, started_at
    from run where id = any(${runIds}) order by id for update`.execute(tx.db)
  return rows
}

export async function lockRunsOfJobs(tx: Tx, jobIds: readonly string[]): Promise<Run[]> {
  const { rows } = await sql<Run>`
    select id, install_id, app_version_id, kind, status, cancel_requested_at, started_at
    from run where id in (select run_id from job where id = any(${jobIds})) order by id for update`.execute(
    tx.db,
  )
  return rows
}

export async function lockRun(tx: Tx, runId: string): Promise<Run | undefined> {
  return (await lockRuns(tx, [runId]))[0]
}

export async function advance(context: Context, tx: Tx, run: Run): Promise<void> {
  return advanceRuns(context, tx, [run])
}

/** Asks the core what may start next, starts it, and ends the runs in which nothing can move. The caller holds their locks. */
export async function advanceRuns(context: Context, tx: Tx, runs: readonly Run[]): Promise<void> {
  for (const run of runs) tx.nudge(`run:${run.id}`)
  const ended: EndedRun[] = []
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

async function stepsOf(tx: Tx, runs: readonly Run[]) {
  const ids = runs.map((run) => run.id)
  return tx.db
    .selectFrom('step')
    .select(['id', 'run_id', 'key', 'kind', 'component', 'action', 'depends_on', 'status', 'not_before'])
    .where(sql<boolean>`run_id = any(${ids})`)
    .orderBy('position')
    .execute()
}

type EndedRun = { run: Run; end: 'succeeded' | 'failed' | 'canceled'; cancel: string[] }

async function endRuns(context: Context, tx: Tx, ended: readonly EndedRun[]): Promise<void> {
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
  const { statuses, next } = await lockNext(tx, installs)
  for (const { run, end } of ended) await settleInstall(context, tx, run, end, statuses)
  await activate(context, tx, next)
}

async function settleInstall(
  context: Context,
  tx: Tx,
  run: Run,
  end: RunStatus,
  statuses: ReadonlyMap<string, InstallStatus>,
): Promise<void> {
  const to = installStatusAfter(run.kind, end)
  if (!to || !installStates.can(statuses.get(run.install_id)!, to)) return
  tx.write(tx.db.updateTable('install').set({ status: to }).where('id', '=', run.install_id))
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
    .select(['id', 'app_id'])
    .where('id', '=', run.install_id)
    .executeTakeFirstOrThrow()
  await tx.db.deleteFrom('step').where('run_id', '=', run.id).execute()
  await planSteps(context, tx, run.id, install, { kind: 'deprovision' }, content)
}

/** One change at a time on an install: the oldest queued run starts when none is active. The caller may hold other runs. */
export async function activateNext(context: Context, tx: Tx, installId: string): Promise<void> {
  const { next } = await lockNext(tx, [installId])
  await activate(context, tx, next)
}

/** Locks installs, and of each the run that may start now. */
async function lockNext(
  tx: Tx,
  installIds: readonly string[],
): Promise<{ statuses: Map<string, InstallStatus>; next: Run[] }> {
  const [installs, runs] = await Promise.all([
    sql<{ id: string; status: InstallStatus }>`
      select id, status from install where id = any(${installIds}) order by id for update`.execute(tx.db),
    sql<Run>`
      select id, install_id, app_version_id, kind, status, cancel_requested_at, started_at from run
      where id in (
        select next.id from unnest(${installIds}::text[]) as i(id) cross join lateral (
          select run.id from run where run.install_id = i.id and run.status = 'queued' order by run.id limit 1
        ) as next
        where not exists (select from run where run.install_id = i.id and run.status = 'active')
      ) order by id for update`.execute(tx.db),
  ])
  return {
    statuses: new Map(installs.rows.map((row) => [row.id, row.status])),
    next: runs.rows.filter((run) => run.status === 'queued'),
  }
}

async function activate(context: Context, tx: Tx, next: readonly Run[]): Promise<void> {
  if (next.length === 0) return
  tx.write(sql`
    update run set status = 'active', started_at = ${tx.at} where id = any(${next.map((run) => run.id)})`)
  for (const run of next) {
    const to: InstallStatus | undefined =
      run.kind === 'provision' ? 'provisioning' : run.kind === 'deprovision' ? 'deprovisioning' : undefined
    if (to) tx.write(tx.db.updateTable('install').set({ status: to }).where('id', '=', run.install_id))
    if (run.kind === 'deprovision' && run.started_at === null) await planAgain(context, tx, run)
  }
  await advanceRuns(
    context,
    tx,
    next.map((run) => ({ ...run, status: 'active' as const })),
  )
}
