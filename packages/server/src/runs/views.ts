import { whyRunWaits, type Waiting } from '@tenon/core'
import { planOf, type RunView, type Who } from '@tenon/protocol'
import { sql, type Selectable } from 'kysely'
import { notFound } from '../errors.ts'
import { JOB_COLUMNS, jobWaits, type JobRow } from '../jobs/views.ts'
import type { Db } from '../store/database.ts'
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

/** What runs are shown with besides their own rows. */
interface Around {
  steps: Row<'step'>[]
  jobs: JobRow[]
  waits: Map<string, Waiting>
  failedAt: Map<string, string>
  /** Runs that are active on the same installs. */
  actives: Pick<Row<'run'>, 'id' | 'kind' | 'install_id'>[]
  creators: Map<string, Who>
}

type NamedRun = Row<'run'> & { install: string }

export async function runViews(db: Db, runs: NamedRun[]): Promise<RunView[]> {
  if (runs.length === 0) return []
  const around = await loadAround(db, runs)
  return runs.map((run) => viewOf(run, around))
}

async function loadAround(db: Db, runs: NamedRun[]): Promise<Around> {
  const [steps, actives, creators] = await Promise.all([
    db
      .selectFrom('step')
      .selectAll()
      .where('run_id', '=', anyOf(runs.map((run) => run.id)))
      .orderBy('position')
      .execute(),
    db
      .selectFrom('run')
      .select(['id', 'kind', 'install_id'])
      .where('status', '=', 'active')
      .where('install_id', '=', anyOf(runs.map((run) => run.install_id)))
      .execute(),
    creatorsOf(db, runs),
  ])
  const [jobs, failedAt] = await Promise.all([jobsOf(db, steps), lastFailures(db, steps)])
  const waits = await jobWaits(db, jobs, new Map(runs.map((run) => [run.install_id, run.install])))
  return { steps, jobs, waits, failedAt, actives, creators }
}

async function jobsOf(db: Db, steps: readonly Row<'step'>[]): Promise<JobRow[]> {
  const ids = steps.flatMap((step) => step.job_id ?? [])
  if (ids.length === 0) return []
  return db.selectFrom('job').select(JOB_COLUMNS).where('id', '=', anyOf(ids)).execute()
}

function viewOf(run: NamedRun, around: Around): RunView {
  const creator = around.creators.get(run.id) ?? null
  const steps = around.steps.filter((step) => step.run_id === run.id)
  const jobOf = (step: Row<'step'>) => around.jobs.find((job) => job.id === step.job_id)
  return {
    id: run.id,
    kind: run.kind,
    installId: run.install_id,
    install: run.install,
    status: run.status,
    steps: steps.map((step) => stepView(step, jobOf(step), creator)),
    waiting: waitingOf(run, steps, around),
    createdBy: creator?.name ?? run.created_by,
    creator,
    createdAt: run.created_at,
    finishedAt: run.finished_at,
  }
}

function waitingOf(run: NamedRun, steps: Row<'step'>[], { waits, failedAt, actives }: Around) {
  const blocker = actives.find(({ id, install_id }) => install_id === run.install_id && id !== run.id)
  return whyRunWaits({
    id: run.id,
    status: run.status,
    createdAt: run.created_at,
    blockedBy: blocker ? { runId: blocker.id, kind: blocker.kind } : null,
    activeSteps: steps
      .filter((step) => step.status === 'active')
      .map(({ key, kind, component, started_at, job_id }) => ({
        key,
        kind,
        component,
        since: started_at ?? run.created_at,
        job: job_id ? waits.get(job_id) : undefined,
      })),
    retries: retriesOf(steps, (step) => failedAt.get(step) ?? run.created_at),
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
