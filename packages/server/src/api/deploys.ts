import { deploy, rollBack, runAction } from '../installs/deploy.ts'
import { findInstall } from '../installs/views.ts'
import { listDeploys } from '../runs/deploys.ts'
import { requireRun } from '../runs/views.ts'
import { pageOf, type Handlers } from './handler.ts'

export const deployHandlers = {
  'deploys.create': async ({ context, params, body, caller }) => {
    const install = await findInstall(context.db, params.ref)
    return requireRun(context.db, await deploy(context, install, body, caller))
  },
  'deploys.rollback': async ({ context, params, caller }) => {
    const install = await findInstall(context.db, params.ref)
    return requireRun(context.db, await rollBack(context, install, params.id, caller))
  },
  'actions.run': async ({ context, params, caller }) => {
    const install = await findInstall(context.db, params.ref)
    return requireRun(context.db, await runAction(context, install, params.name, caller))
  },
  'deploys.list': async ({ context: { db }, params, query: { after, limit } }) => {
    const { id: installId } = await findInstall(db, params.ref)
    return pageOf(await listDeploys(db, { installId, after, limit: limit + 1 }), limit, (view) => view)
  },
} satisfies Partial<Handlers>
