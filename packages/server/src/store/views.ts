import {
  INTERACTIVE_KINDS,
  jobStates,
  requirementOf,
  whyJobWaits,
  whyRunWaits,
  type JobFacts,
  type Waiting,
} from '@tenon/core'
import { planOf, type JobView, type RunView, type Who } from '@tenon/protocol'
import { sql, type Selectable } from 'kysely'
import type { Db } from './database.ts'
import type { Database, JobTable } from './schema.ts'
import { anyOf } from './statements.ts'

type Row<T extends keyof Database> = Selectable<Database[T]>
type JobRow = Omit<
  Selectable<JobTable>,
  'manifest' | 'manifest_issued_at' | 'manifest_key_id' | 'manifest_signature'
>

export const JOB_COLUMNS = [
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
  'manifest_digest',
  'requires',
  'agent_id',
  'lease_until',
  'cancel_requested_at',
  'reason',
  'exit_code',
  'message',
  'result',
  'progress',
  'confinement',
  'log_bytes',
  'created_at',
  'assigned_at',
  'started_at',
  'finished_at',
] as const satisfies (keyof JobTable)[]

/** What people called an install, also after its name was given on. */
export const shownName = sql<string>`coalesce(install.former_name, install.name)`

export async function jobViews(db: Db, rows: JobRow[]): Promise<JobView[]> {
  const subjects = await jobSubjects(db, rows)
  const waits = await jobWaits(db, rows, new Map(subjects.map((each) => [each.installId, each.install])))
  const ofJob = new Map(subjects.map((each) => [each.id, each]))
  return rows.map((row) => ({
    id: row.id,
    kind: row.kind,
    status: row.status,
    fence: row.fence,
    role: row.role,
    installId: row.install_id,
    install: ofJob.get(row.id)?.install ?? null,
    component: ofJob.get(row.id)?.component ?? null,
    agentId: row.agent_id,
    stepId: row.step_id,
    runId: row.run_id,
    buildId: row.build_id,
    manifestDigest: row.manifest_digest,
    reason: row.reason,
    exitCode: row.exit_code,
    message: row.message,
    result: row.result,
    confinement: row.confinement,
    logBytes: row.log_bytes,
    waiting: waits.get(row.id) ?? null,
    createdAt: row.created_at,
    assignedAt: row.assigned_at,
    startedAt: row.started_at,
    leaseUntil: row.lease_until,
    finishedAt: row.finished_at,
  }))
}

/** By job. */
async function holdsOf(db: Db, rows: readonly JobRow[]): Promise<Map<string, NonNullable<JobFacts['hold']>>> {
  const held = rows.filter(({ status }) => status === 'held').map(({ id }) => id)
  if (held.length === 0) return new Map()
  const { rows: found } = await sql<{
    job_id: string
    reason: string
    until: string | null
    since: string
    startBefore: string
  }>`
    select job_id, reason, until, since, start_before as "startBefore" from job_hold where job_id = any(${held})`.execute(
    db,
  )
  return new Map(found.map(({ job_id, ...hold }) => [job_id, hold]))
}

interface JobSubject {
  id: string
  installId: string | null
  install: string | null
  component: string | null
}

/** What jobs are about, by the names that people know. */
async function jobSubjects(db: Db, rows: JobRow[]): Promise<JobSubject[]> {
  if (rows.length === 0) return []
  const found = await sql<JobSubject>`
    select job.id, job.install_id as "installId", ${shownName} as install,
      coalesce(step.component, 'action:' || step.action, build.component) as component
    from job
    left join install on install.id = job.install_id
    left join step on step.id = job.step_id
    left join build on build.id = job.build_id
    where job.id = any(${rows.map(({ id }) => id)}::text[])`.execute(db)
  return found.rows
}

/** Facts for all rows in three statements; the judgement is core's. */
async function jobWaits(
  db: Db,
  rows: JobRow[],
  installs: ReadonlyMap<string | null, string | null>,
): Promise<Map<string, Waiting>> {
  const open = rows.filter((row) => !jobStates.isEnd(row.status))
  if (open.length === 0) return new Map()
  const pools = [...new Set(open.map((row) => row.pool))]
  const known = await db
    .selectFrom('agent')
    .select(['id', 'pool', 'status', 'session_id', 'last_seen_at', 'slots', 'runtime', 'features'])
    .where('pool', '=', anyOf(pools))
    .execute()
  const agents = known.filter(({ status }) => status === 'enrolled')
  const held = await db
    .selectFrom('job')
    .select(['id', 'kind', 'agent_id'])
    .where('agent_id', '=', anyOf([...agents.map(({ id }) => id), '']))
    .where('status', '=', anyOf(['assigned', 'running']))
    .orderBy('id')
    .execute()
  const queued = await queuePlaces(db, open, pools)
  const holds = await holdsOf(db, open)
  const waits = new Map<string, Waiting>()
  for (const row of open) {
    const place = queued.get(row.id)
    const mine = agents.filter((a) => a.pool === row.pool)
    const byLane = mine.some((a) => (a.runtime?.capacity?.interactiveSlots ?? 0) > 0)
    const waiting = whyJobWaits({
      status: row.status,
      kind: row.kind,
      hold: holds.get(row.id) ?? null,
      said: row.progress?.message ?? null,
      createdAt: row.created_at,
      assignedAt: row.assigned_at,
      leaseUntil: row.lease_until,
      cancelRequestedAt: row.cancel_requested_at,
      target: {
        role: row.role,
        installId: row.role === 'install' ? row.install_id : null,
        install: installs.get(row.install_id) ?? null,
      },
      requires: row.requires.map(requirementOf),
      agents: mine.map((a) => ({
        id: a.id,
        connected: a.session_id !== null,
        lastSeenAt: a.last_seen_at,
        slots: a.slots,
        interactiveSlots: a.runtime?.capacity?.interactiveSlots ?? 0,
        features: a.features,
        holding: held
          .filter((job) => job.agent_id === a.id && job.id !== row.id)
          .map(({ id, kind }) => ({ jobId: id, kind })),
      })),
      formerAgents: known.filter((a) => a.pool === row.pool).length - mine.length,
      ahead: (byLane ? place?.inLane : place?.inPool) ?? 0,
    })
    if (waiting) waits.set(row.id, waiting)
  }
  return waits
}

/**
 * How many queued jobs come before each: of all of its pool, and of those of its own lane. Those that no connected agent
 * can do are passed by.
 */
async function queuePlaces(
  db: Db,
  open: readonly JobRow[],
  pools: string[],
): Promise<Map<string, { inPool: number; inLane: number }>> {
  const ids = open.filter(({ status }) => status === 'queued').map(({ id }) => id)
  if (ids.length === 0) return new Map()
  const { rows } = await sql<{ id: string; inPool: number; inLane: number }>`
    select id, in_pool::int as "inPool", in_lane::int as "inLane" from (
      select id, row_number() over (partition by pool order by id) - 1 as in_pool,
        row_number() over (partition by pool, kind = any(${[...INTERACTIVE_KINDS]}::text[]) order by id) - 1 as in_lane
      from job where status = 'queued' and pool = any(${pools}::text[]) and exists (
        select from agent where agent.pool = job.pool and agent.status = 'enrolled' and session_id is not null
          and coalesce(job.requires <@ agent.features, true)
      )
    ) as queue where id = any(${ids}::text[])`.execute(db)
  return new Map(rows.map((row) => [row.id, row]))
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

export async function jobView(db: Db, id: string): Promise<JobView | undefined> {
  const rows = await db.selectFrom('job').select(JOB_COLUMNS).where('id', '=', id).execute()
  return (await jobViews(db, rows))[0]
}
