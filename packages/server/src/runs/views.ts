import type { Db } from '../store/database.ts'
import { planOf, type RunView, type Who } from '@tenon/protocol'
import { whyRunWaits } from '@tenon/core'
import { sql, type Selectable } from 'kysely'
import { JOB_COLUMNS, jobWaits, type JobRow } from '../jobs/views.ts'
import { notFound } from '../errors.ts'
import { shownName } from '../store/names.ts'
import type { Database } from '../store/schema.ts'
import { anyOf } from '../store/statements.ts'

type Row<T extends keyof Database> = Selectable<Database[T]>

interface Filter {
  installId?: string | undefined
  after?: string | undefined
  limit: number
}

/** Newest first, each with the name of its install. */
export function listRuns(db: Db, { installId, after, limit }: Filter) {
  return db
    .selectFrom('run')
    .innerJoin('install', 'install.id', 'run.install_id')
    .selectAll('run')
    .select(shownName.as('install'))
    .$if(installId !== undefined, (q) => q.where('run.install_id', '=', installId!))
    .$if(after !== undefined, (q) => q.where('run.id', '<', after!))
    .orderBy('run.id', 'desc')
    .limit(limit)
    .execute()
}

export async function runViews(db: Db, runs: (Row<'run'> & { install: string })[]): Promise<RunView[]> {
  if (runs.length === 0) return []
  const ids = runs.map((run) => run.id)
  const steps = await db
    .selectFrom('step')
    .selectAll()
    .where('run_id', '=', anyOf(ids))
    .orderBy('position')
    .execute()
  const jobIds = steps.map((s) => s.job_id).filter((id) => id !== null)
  const jobs =
    jobIds.length > 0
      ? await db.selectFrom('job').select(JOB_COLUMNS).where('id', '=', anyOf(jobIds)).execute()
      : []
  const waits = await jobWaits(db, jobs, new Map(runs.map((run) => [run.install_id, run.install])))
  const failedAt = await lastFailures(db, steps)
  const actives = await db
    .selectFrom('run')
    .select(['id', 'kind', 'install_id'])
    .where('status', '=', 'active')
    .where('install_id', '=', anyOf(runs.map((r) => r.install_id)))
    .execute()
  const creators = await creatorsOf(db, runs)
  return runs.map((run) => {
    const creator = creators.get(run.id) ?? null
    const mine = steps.filter((s) => s.run_id === run.id)
    const blocker = actives.find((a) => a.install_id === run.install_id && a.id !== run.id)
    return {
      id: run.id,
      kind: run.kind,
      installId: run.install_id,
      install: run.install,
      status: run.status,
      steps: mine.map((s) =>
        stepView(
          s,
          jobs.find((j) => j.id === s.job_id),
          creator,
        ),
      ),
      waiting: whyRunWaits({
        id: run.id,
        status: run.status,
        createdAt: run.created_at,
        blockedBy: blocker ? { runId: blocker.id, kind: blocker.kind } : null,
        activeSteps: mine
          .filter((s) => s.status === 'active')
          .map((s) => ({
            key: s.key,
            kind: s.kind,
            component: s.component,
            since: s.started_at ?? run.created_at,
            job: s.job_id ? waits.get(s.job_id) : undefined,
          })),
        retries: retriesOf(mine, (step) => failedAt.get(step) ?? run.created_at),
      }),
      createdBy: creator?.name ?? run.created_by,
      creator,
      createdAt: run.created_at,
      finishedAt: run.finished_at,
    }
  })
}

/** By run, under the names that they have today. A run of a process of the version before has none. */
async function creatorsOf(db: Db, runs: Row<'run'>[]): Promise<Map<string, Who>> {
  const ids = [...new Set(runs.flatMap((run) => run.creator_id ?? []))]
  const { rows } = await sql<Who>`select id, kind, name from principal where id = any(${ids})`.execute(db)
  const known = new Map(rows.map((row) => [row.id, row]))
  return new Map(
    runs.flatMap(({ id, creator_id, creator_kind, created_by }) => {
      if (creator_id === null || creator_kind === null) return []
      return [
        [id, known.get(creator_id) ?? { id: creator_id, kind: creator_kind, name: created_by }] as const,
      ]
    }),
  )
}

/** A deploy that is tried again takes its plan along; the last of them is the one that failed. */
function retriesOf(steps: Row<'step'>[], since: (stepId: string) => string) {
  const waiting = steps.filter((s) => s.status === 'pending' && s.not_before !== null)
  return waiting
    .filter((s) => waiting.findLast(({ component }) => component === s.component) === s)
    .map((s) => ({
      key: s.key,
      attempts: s.attempts,
      notBefore: s.not_before!,
      since: since(s.id),
      message: s.message,
    }))
}

/** When the last job of each step that waits for another try ended. */
async function lastFailures(db: Db, steps: Row<'step'>[]): Promise<Map<string, string>> {
  const waiting = steps.filter((s) => s.status === 'pending' && s.not_before !== null)
  if (waiting.length === 0) return new Map()
  const rows = await db
    .selectFrom('job')
    .select((eb) => ['step_id', eb.fn.max('finished_at').as('at')])
    .where('run_id', '=', anyOf(waiting.map((s) => s.run_id)))
    .where('step_id', '=', anyOf(waiting.map((s) => s.id)))
    .groupBy('step_id')
    .execute()
  return new Map(rows.flatMap(({ step_id: id, at }) => (id === null || at === null ? [] : [[id, at]])))
}

function stepView(step: Row<'step'>, job: JobRow | undefined, creator: Who | null): RunView['steps'][number] {
  return {
    id: step.id,
    key: step.key,
    kind: step.kind,
    component: step.component,
    dependsOn: step.depends_on,
    status: step.status,
    jobId: step.job_id,
    message: step.message,
    action: step.action,
    attempts: step.attempts,
    notBefore: step.status === 'pending' ? step.not_before : null,
    plan: step.kind === 'plan' ? (planOf(job?.result) ?? null) : null,
    asked: step.asked,
    askedBy: step.kind === 'approval' ? creator : null,
    progress: step.status === 'active' ? (job?.progress ?? null) : null,
    startedAt: step.started_at,
    finishedAt: step.finished_at,
  }
}

export async function runView(db: Db, id: string): Promise<RunView | undefined> {
  const rows = await db
    .selectFrom('run')
    .innerJoin('install', 'install.id', 'run.install_id')
    .selectAll('run')
    .select(shownName.as('install'))
    .where('run.id', '=', id)
    .execute()
  return (await runViews(db, rows))[0]
}

export async function requireRun(db: Db, id: string): Promise<RunView> {
  const view = await runView(db, id)
  if (!view) throw notFound('run', id)
  return view
}
