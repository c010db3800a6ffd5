import type {
  AgentRole,
  InstallStatus,
  JobKind,
  JobStatus,
  RunKind,
  RunStatus,
  StepKind,
  StepStatus,
} from '@tenon/core'
import { sql, type Selectable } from 'kysely'
import type { Database } from './schema.ts'
import type { Tx } from './transaction.ts'

// Locks that wait are taken here, and in one order everywhere: tenant, tokens, agents, runs, installs and apps, jobs, what
// hangs on an install, audit heads; several of a kind by their id. What skips locked rows waits for nobody, and stands where it is used.

export type LockedRun = {
  id: string
  install_id: string
  app_version_id: string
  kind: RunKind
  status: RunStatus
  cancel_requested_at: string | null
  started_at: string | null
}

const RUN = sql`select id, install_id, app_version_id, kind, status, cancel_requested_at, started_at from run`

export async function lockRuns(tx: Tx, runIds: readonly string[]): Promise<LockedRun[]> {
  if (runIds.length === 0) return []
  const { rows } = await sql<LockedRun>`${RUN} where id = any(${runIds}) order by id for update`.execute(
    tx.db,
  )
  return rows
}

export async function lockRun(tx: Tx, runId: string): Promise<LockedRun | undefined> {
  return (await lockRuns(tx, [runId]))[0]
}

async function lockRunsOfJobs(tx: Tx, jobIds: readonly string[]): Promise<LockedRun[]> {
  const { rows } = await sql<LockedRun>`
    ${RUN} where id in (select run_id from job where id = any(${jobIds})) order by id for update`.execute(
    tx.db,
  )
  return rows
}

/** Installs, and of each the run that may start now. The caller may hold other runs. */
export async function lockNextRuns(
  tx: Tx,
  installIds: readonly string[],
): Promise<{ statuses: Map<string, InstallStatus>; next: LockedRun[] }> {
  const [installs, runs] = await Promise.all([
    sql<{ id: string; status: InstallStatus }>`
      select id, status from install where id = any(${installIds}) order by id for update`.execute(tx.db),
    sql<LockedRun>`
      ${RUN} where id in (
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

export function lockInstall(tx: Tx, installId: string): Promise<Selectable<Database['install']> | undefined> {
  return tx.db.selectFrom('install').selectAll().where('id', '=', installId).forUpdate().executeTakeFirst()
}

/** Its versions are numbered one after the other. */
export function lockApp(tx: Tx, name: string): Promise<Selectable<Database['app']>> {
  return tx.db.selectFrom('app').selectAll().where('name', '=', name).forUpdate().executeTakeFirstOrThrow()
}

export type LockedAgent = Pick<
  Selectable<Database['agent']>,
  | 'id'
  | 'install_id'
  | 'role'
  | 'pool'
  | 'status'
  | 'boot_counter'
  | 'boot_id'
  | 'public_key'
  | 'event_seq'
  | 'recipient'
>

export async function lockAgents(tx: Tx, ids: readonly string[]): Promise<LockedAgent[]> {
  const { rows } = await sql<LockedAgent>`
    select id, install_id, role, pool, status, boot_counter, boot_id, public_key, event_seq, recipient
    from agent where id = any(${ids}) order by id for update`.execute(tx.db)
  return rows
}

/** Part of a claim: no other session of these agents opens until it has committed. */
export const SHARED_AGENTS = `
    select id, session_id from agent where id = any($1::text[]) and status = 'enrolled' order by id for share`

export function lockJoinToken(tx: Tx, id: string): Promise<Selectable<Database['join_token']> | undefined> {
  return tx.db.selectFrom('join_token').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

export function lockRegistryToken(tx: Tx, secretHash: string) {
  return tx.db
    .selectFrom('registry_token')
    .selectAll()
    .where('secret_hash', '=', secretHash)
    .forUpdate()
    .executeTakeFirst()
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
  run: LockedRun | undefined
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

/** Two owners who revoke each other at once, and two first starts, come one after the other. */
export async function lockTenant(tx: Tx): Promise<void> {
  await tx.db.selectFrom('server_identity').select('server_id').forUpdate().execute()
}

/** Their rows alone, where their runs are not changed. */
export async function lockJobRows(tx: Tx, jobIds: readonly string[]) {
  const { rows } = await sql<{ id: string; fence: number; status: JobStatus }>`
    select id, fence, status from job where id = any(${jobIds}) order by id for update`.execute(tx.db)
  return rows
}

/** Its lease cannot end while something is granted by it. */
export function shareJob(tx: Tx, jobId: string): Promise<Selectable<Database['job']> | undefined> {
  return tx.db.selectFrom('job').selectAll().where('id', '=', jobId).forShare().executeTakeFirst()
}

/** Seconds since some process last watched the leases. */
export async function lockLeaseWatch(tx: Tx): Promise<number> {
  const { rows } = await sql<{ gap: number }>`
    select extract(epoch from clock_timestamp() - watched_at)::float8 as gap from lease_watch for update`.execute(
    tx.db,
  )
  return rows[0]!.gap
}

export function lockComponent(tx: Tx, installId: string, component: string) {
  return tx.db
    .selectFrom('install_component')
    .selectAll()
    .where('install_id', '=', installId)
    .where('component', '=', component)
    .forUpdate()
    .executeTakeFirst()
}

/** A sealed value that its install does not have yet. */
export function lockUndelivered(tx: Tx, secretId: number, installId: string) {
  return tx.db
    .selectFrom('install_secret')
    .select(['name', 'version', 'refusal'])
    .where('id', '=', secretId)
    .where('install_id', '=', installId)
    .where('delivered_at', 'is', null)
    .forUpdate()
    .executeTakeFirst()
}
