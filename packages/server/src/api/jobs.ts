import { sql } from 'kysely'
import { cancelJob, forceSettle } from '../operations/job-control.ts'
import { JOB_COLUMNS, jobView, jobViews } from '../store/views.ts'
import { notFound, pageOf, type Handlers } from './handler.ts'
import { findInstall } from './install-view.ts'
import { streamLog } from './streams.ts'
import type { Context } from '../context.ts'

export const jobHandlers = {
  'jobs.list': async ({ context, query }) => {
    const install = query.install === undefined ? undefined : await findInstall(context.db, query.install)
    const rows = await context.db
      .selectFrom('job')
      .select(JOB_COLUMNS)
      .$if(install !== undefined, (q) => q.where('install_id', '=', install!.id))
      .$if(query.component !== undefined, (q) => q.where(isAbout(query.component!)))
      .$if(query.status !== undefined, (q) => q.where('status', '=', query.status!))
      .$if(query.after !== undefined, (q) => q.where('id', '<', query.after!))
      .orderBy('id', 'desc')
      .limit(query.limit + 1)
      .execute()
    const page = pageOf(rows, query.limit, (row) => row)
    return { items: await jobViews(context.db, page.items), next: page.next }
  },
  'jobs.get': async ({ context, params }) => requireJob(context, params.id),
  'jobs.manifest': async ({ context, params }) => {
    const row = await context.db
      .selectFrom('job')
      .select(['manifest', 'manifest_key_id', 'manifest_signature', 'manifest_digest'])
      .where('id', '=', params.id)
      .executeTakeFirst()
    if (!row) throw notFound('job', params.id)
    return {
      text: row.manifest,
      keyId: row.manifest_key_id,
      signature: row.manifest_signature,
      digest: row.manifest_digest,
    }
  },
  'jobs.logs': async ({ context, params, query, reply }) => {
    await requireJob(context, params.id)
    await streamLog(context, params.id, query.offset, query.follow === '1', reply)
  },
  'jobs.cancel': async ({ context, params, caller }) => {
    await cancelJob(context, params.id, caller)
    return requireJob(context, params.id)
  },
  'jobs.settle': async ({ context, params, body, caller }) => {
    await forceSettle(context, params.id, body.outcome, body.reason, caller)
    return requireJob(context, params.id)
  },
} satisfies Partial<Handlers>

/** Of steps and of builds: asked row by row, newest first, so that the first of them is found without all the others. */
function isAbout(component: string) {
  return sql<boolean>`(
    exists (select from step where step.id = job.step_id
      and (step.component = ${component} or 'action:' || step.action = ${component}))
    or exists (select from build where build.id = job.build_id and build.component = ${component}))`
}

async function requireJob(context: Context, id: string) {
  const view = await jobView(context.db, id)
  if (!view) throw notFound('job', id)
  return view
}
