import type { Context } from '../context.ts'
import { cancelRun, cancelStep, decideStep, retryStep, skipStep } from '../runs/control.ts'
import { runView, runViews, shownName } from '../store/views.ts'
import { notFound } from '../errors.ts'
import { pageOf, type Handlers } from './handler.ts'
import { findInstall } from '../installs/view.ts'
import { watchRun } from './streams.ts'

export const runHandlers = {
  'runs.list': async ({ context, query }) => {
    const install = query.install === undefined ? undefined : await findInstall(context.db, query.install)
    const rows = await context.db
      .selectFrom('run')
      .innerJoin('install', 'install.id', 'run.install_id')
      .selectAll('run')
      .select(shownName.as('install'))
      .$if(install !== undefined, (q) => q.where('run.install_id', '=', install!.id))
      .$if(query.after !== undefined, (q) => q.where('run.id', '<', query.after!))
      .orderBy('run.id', 'desc')
      .limit(query.limit + 1)
      .execute()
    const page = pageOf(rows, query.limit, (row) => row)
    return { items: await runViews(context.db, page.items), next: page.next }
  },
  'runs.get': async ({ context, params }) => requireRun(context, params.id),
  'runs.watch': async ({ context, params, reply }) => {
    await requireRun(context, params.id)
    await watchRun(context, params.id, reply)
  },
  'runs.cancel': async ({ context, params, caller }) => {
    await cancelRun(context, params.id, caller)
    return requireRun(context, params.id)
  },
  'steps.retry': async ({ context, params, caller }) => {
    await retryStep(context, params.id, params.step, caller)
    return requireRun(context, params.id)
  },
  'steps.skip': async ({ context, params, caller }) => {
    await skipStep(context, params.id, params.step, caller)
    return requireRun(context, params.id)
  },
  'steps.cancel': async ({ context, params, caller }) => {
    await cancelStep(context, params.id, params.step, caller)
    return requireRun(context, params.id)
  },
  'steps.approve': async ({ context, params, body, caller }) => {
    await decideStep(context, params.id, params.step, { approve: true, digest: body.digest }, caller)
    return requireRun(context, params.id)
  },
  'steps.reject': async ({ context, params, body, caller }) => {
    await decideStep(context, params.id, params.step, { approve: false, reason: body.reason }, caller)
    return requireRun(context, params.id)
  },
} satisfies Partial<Handlers>

async function requireRun(context: Context, id: string) {
  const view = await runView(context.db, id)
  if (!view) throw notFound('run', id)
  return view
}
