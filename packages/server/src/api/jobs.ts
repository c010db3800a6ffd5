import { cancelJob, forceSettle } from '../jobs/control.ts'
import { selectJobs } from '../jobs/lists.ts'
import { jobView, jobViews } from '../store/views.ts'
import { notFound } from '../errors.ts'
import { pageOf, type Handlers } from './handler.ts'
import { findInstall } from '../installs/view.ts'
import { streamLog } from './streams.ts'
import type { Context } from '../context.ts'

export const jobHandlers = {
  'jobs.list': async ({ context, query }) => {
    const install = query.install === undefined ? undefined : await findInstall(context.db, query.install)
    const { component, status, after, limit } = query
    const filter = { installId: install?.id, component, status, after, limit: limit + 1 }
    const rows = await selectJobs(context.db, filter).execute()
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

async function requireJob(context: Context, id: string) {
  const view = await jobView(context.db, id)
  if (!view) throw notFound('job', id)
  return view
}
