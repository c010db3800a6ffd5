import type { JobStatus } from '@tenon/core'
import { sql } from 'kysely'
import type { Db } from '../store/database.ts'
import { JOB_COLUMNS } from './views.ts'

export interface JobFilter {
  installId?: string | undefined
  component?: string | undefined
  status?: JobStatus | undefined
  /** An id: only what is older. */
  after?: string | undefined
  limit: number
}

/** Newest first. */
export function listJobs(db: Db, filter: JobFilter) {
  return selectJobs(db, filter).execute()
}

export function selectJobs(db: Db, { installId, component, status, after, limit }: JobFilter) {
  return db
    .selectFrom('job')
    .select(JOB_COLUMNS)
    .$if(installId !== undefined, (q) => q.where('id', '=', jobsOf(installId!, component)))
    .$if(installId === undefined && component !== undefined, (q) => q.where(isAbout(component!)))
    .$if(status !== undefined, (q) => q.where('status', '=', status!))
    .$if(after !== undefined, (q) => q.where('id', '<', after!))
    .orderBy('id', 'desc')
    .limit(limit)
}

/**
 * From the runs of an install, which are few beside all jobs of all installs. Without an order or limit of its own: for
 * one, Postgres would rather walk through all jobs from the newest on.
 */
function jobsOf(installId: string, component: string | undefined) {
  const about =
    component === undefined
      ? sql``
      : sql`join step on step.id = mine.step_id
          and (step.component = ${component} or 'action:' || step.action = ${component})`
  return sql<string>`any(array(
    select mine.id from run join job as mine on mine.run_id = run.id ${about} where run.install_id = ${installId}))`
}

/** Of all installs and of builds: asked row by row, so that the newest of what is often there are found at once. */
function isAbout(component: string) {
  return sql<boolean>`(
    exists (select from step where step.id = job.step_id
      and (step.component = ${component} or 'action:' || step.action = ${component}))
    or exists (select from build where build.id = job.build_id and build.component = ${component}))`
}
