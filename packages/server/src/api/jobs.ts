import { findInstall } from '../installs/views.ts'
import { cancelJob, forceSettle } from '../jobs/control.ts'
import { listJobs } from '../jobs/lists.ts'
import { jobViews, manifestOf, requireJob } from '../jobs/views.ts'
import { pageOf, type Handlers } from './handler.ts'
import { streamLog } from './streams.ts'

export const jobHandlers = {
  'jobs.list': async ({ context: { db }, query }) => {
    const install = query.install === undefined ? undefined : await findInstall(db, query.install)
    const { component, status, after, limit } = query
    const rows = await listJobs(db, { installId: install?.id, component, status, after, limit: limit + 1 })
    const page = pageOf(rows, limit, (row) => row)
    return { items: await jobViews(db, page.items), next: page.next }
  },
  'jobs.get': async ({ context, params }) => requireJob(context.db, params.id),
  'jobs.manifest': async ({ context, params }) => manifestOf(context.db, params.id),
  'jobs.logs': async ({ context, params, query, reply }) => {
    await requireJob(context.db, params.id)
    await streamLog(context, params.id, query.offset, query.follow === '1', reply)
  },
  'jobs.cancel': async ({ context, params, caller }) => {
    await cancelJob(context, params.id, caller)
    return requireJob(context.db, params.id)
  },
  'jobs.settle': async ({ context, params, body, caller }) => {
    await forceSettle(context, params.id, body.outcome, body.reason, caller)
    return requireJob(context.db, params.id)
  },
} satisfies Partial<Handlers>
