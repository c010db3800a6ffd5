import {
  jobStates,
  INTERACTIVE_KINDS,
  requirementOf,
  whyJobWaits,
  type JobFacts,
  type Waiting,
} from '@tenon/core'
import type { JobView } from '@tenon/protocol'
import { sql, type Selectable } from 'kysely'
import { notFound } from '../errors.ts'
import type { Db } from '../store/database.ts'
import { shownName } from '../store/names.ts'
import type { JobTable } from '../store/schema.ts'
import { anyOf } from '../store/statements.ts'

export type JobRow = Omit<
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

/** Facts for all rows in a few statements; the judgement is core's. */
export async function jobWaits(
  db: Db,
  rows: JobRow[],
  installs: ReadonlyMap<string | null, string | null>,
): Promise<Map<string, Waiting>> {
  const open = rows.filter((row) => !jobStates.isEnd(row.status))
  if (open.length === 0) return new Map()
  const pools = [...new Set(open.map((row) => row.pool))]
  const [agents, places, holds] = await Promise.all([
    agentsOfPools(db, pools),
    queuePlaces(db, open, pools),
    holdsOf(db, open),
  ])
  const having = await jobsHad(db, agents)
  const waits = new Map<string, Waiting>()
  for (const row of open) {
    const waiting = whyJobWaits({
      ...factsOfJob(row),
      hold: holds.get(row.id) ?? null,
      target: {
        role: row.role,
        installId: row.role === 'install' ? row.install_id : null,
        install: installs.get(row.install_id) ?? null,
      },
      ...factsOfAgents(row, agents, having),
      ahead: aheadOf(row, agents, places.get(row.id)),
    })
    if (waiting) waits.set(row.id, waiting)
  }
  return waits
}

type PoolAgent = Awaited<ReturnType<typeof agentsOfPools>>[number]
type HadJob = Awaited<ReturnType<typeof jobsHad>>[number]

function agentsOfPools(db: Db, pools: readonly string[]) {
  return db
    .selectFrom('agent')
    .select(['id', 'pool', 'status', 'session_id', 'last_seen_at', 'slots', 'runtime', 'features'])
    .where('pool', '=', anyOf(pools))
    .execute()
}

/** Which of these agents have which jobs. */
function jobsHad(db: Db, agents: readonly PoolAgent[]) {
  const enrolled = agents.filter(isEnrolled).map(({ id }) => id)
  return db
    .selectFrom('job')
    .select(['id', 'kind', 'agent_id'])
    .where('agent_id', '=', anyOf([...enrolled, '']))
    .where('status', '=', anyOf(['assigned', 'running']))
    .orderBy('id')
    .execute()
}

function isEnrolled({ status }: PoolAgent): boolean {
  return status === 'enrolled'
}

function factsOfJob(row: JobRow) {
  return {
    status: row.status,
    kind: row.kind,
    said: row.progress?.message ?? null,
    createdAt: row.created_at,
    assignedAt: row.assigned_at,
    leaseUntil: row.lease_until,
    cancelRequestedAt: row.cancel_requested_at,
    requires: row.requires.map(requirementOf),
  }
}

function factsOfAgents(row: JobRow, agents: readonly PoolAgent[], having: readonly HadJob[]) {
  const ofPool = agents.filter(({ pool }) => pool === row.pool)
  const mine = ofPool.filter(isEnrolled)
  return {
    agents: mine.map((agent) => ({
      id: agent.id,
      connected: agent.session_id !== null,
      lastSeenAt: agent.last_seen_at,
      slots: agent.slots,
      interactiveSlots: interactiveSlotsOf(agent),
      features: agent.features,
      holding: having
        .filter((job) => job.agent_id === agent.id && job.id !== row.id)
        .map(({ id, kind }) => ({ jobId: id, kind })),
    })),
    formerAgents: ofPool.length - mine.length,
  }
}

function interactiveSlotsOf({ runtime }: PoolAgent): number {
  return runtime?.capacity?.interactiveSlots ?? 0
}

/** Where its agents keep the lanes apart, only its own lane counts. */
function aheadOf(row: JobRow, agents: readonly PoolAgent[], place: QueuePlace | undefined): number {
  const isByLane = agents.some(
    (agent) => isEnrolled(agent) && agent.pool === row.pool && interactiveSlotsOf(agent) > 0,
  )
  return (isByLane ? place?.inLane : place?.inPool) ?? 0
}

interface QueuePlace {
  inPool: number
  inLane: number
}

/**
 * How many queued jobs come before each: of all of its pool, and of those of its own lane. Those that no connected agent
 * can do are passed by.
 */
async function queuePlaces(
  db: Db,
  open: readonly JobRow[],
  pools: string[],
): Promise<Map<string, QueuePlace>> {
  const ids = open.filter(({ status }) => status === 'queued').map(({ id }) => id)
  if (ids.length === 0) return new Map()
  const { rows } = await sql<QueuePlace & { id: string }>`
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

export async function requireJob(db: Db, id: string): Promise<JobView> {
  const rows = await db.selectFrom('job').select(JOB_COLUMNS).where('id', '=', id).execute()
  const [view] = await jobViews(db, rows)
  if (!view) throw notFound('job', id)
  return view
}

/** The signed text, as its agent got it. */
export async function manifestOf(db: Db, id: string) {
  const row = await db
    .selectFrom('job')
    .select(['manifest', 'manifest_key_id', 'manifest_signature', 'manifest_digest'])
    .where('id', '=', id)
    .executeTakeFirst()
  if (!row) throw notFound('job', id)
  return {
    text: row.manifest,
    keyId: row.manifest_key_id,
    signature: row.manifest_signature,
    digest: row.manifest_digest,
  }
}
