import { findInstall } from '../installs/views.ts'
import { cancelRun, cancelStep, decideStep, retryStep, skipStep } from '../runs/control.ts'
import { runViews, listRuns, requireRun } from '../runs/views.ts'
import { pageOf, type Handlers } from './handler.ts'
import { watchRun } from './streams.ts'

export const runHandlers = {
  'runs.list': async ({ context, query }) => {
    const install = query.install === undefined ? undefined : await findInstall(context.db, query.install)
    const rows = await listRuns(context.db, {
      installId: install?.id,
      after: query.after,
      limit: query.limit + 1,
    })
    const page = pageOf(rows, query.limit, (row) => row)
    return { items: await runViews(context.db, page.items), next: page.next }
  },
  'runs.get': async ({ context, params }) => requireRun(context.db, params.id),
  'runs.watch': async ({ context, params, reply }) => {
    await requireRun(context.db, params.id)
    await watchRun(context, params.id, reply)
  },
  'runs.cancel': async ({ context, params, caller }) => {
    await cancelRun(context, params.id, caller)
    return requireRun(context.db, params.id)
  },
  'steps.retry': async ({ context, params, caller }) => {
    await retryStep(context, params.id, params.step, caller)
    return requireRun(context.db, params.id)
  },
  'steps.skip': async ({ context, params, caller }) => {
    await skipStep(context, params.id, params.step, caller)
    return requireRun(context.db, params.id)
  },
  'steps.cancel': async ({ context, params, caller }) => {
    await cancelStep(context, params.id, params.step, caller)
    return requireRun(context.db, params.id)
  },
  'steps.approve': async ({ context, params, body, caller }) => {
    await decideStep(context, params.id, params.step, { approve: true, digest: body.digest }, caller)
    return requireRun(context.db, params.id)
  },
  'steps.reject': async ({ context, params, body, caller }) => {
    await decideStep(context, params.id, params.step, { approve: false, reason: body.reason }, caller)
    return requireRun(context.db, params.id)
  },
} satisfies Partial<Handlers>
