import { createInstallToken } from '../agents/join-tokens.ts'
import { recipientOf } from '../agents/recipient.ts'
import { findApp } from '../apps/views.ts'
import { createInstall } from '../installs/create.ts'
import { deleteInstall } from '../installs/delete.ts'
import { deprovisionInstall, tearDown } from '../installs/remove.ts'
import { updateInstall } from '../installs/update.ts'
import { findInstall, installView, installViews, listInstalls } from '../installs/views.ts'
import { byCaller } from '../people/actor.ts'
import { requireRun } from '../runs/views.ts'
import { pageOf, type Handlers } from './handler.ts'

export const installHandlers = {
  'installs.list': async ({ context: { db }, query: { app: ref, after, limit } }) => {
    const app = ref === undefined ? undefined : await findApp(db, ref)
    const rows = await listInstalls(db, { appId: app?.id, after, limit: limit + 1 })
    const page = pageOf(rows, limit, ({ id }) => id)
    return { items: await installViews(db, page.items), next: page.next }
  },
  'installs.get': async ({ context: { db }, params }) =>
    installView(db, (await findInstall(db, params.ref)).id),
  'installs.create': async ({ context, body, caller }) => {
    const { id, runId } = await createInstall(context, body, caller)
    return { install: await installView(context.db, id), run: await requireRun(context.db, runId) }
  },
  'installs.deprovision': async ({ context, params, caller }) => {
    const install = await findInstall(context.db, params.ref)
    return requireRun(context.db, await deprovisionInstall(context, install, caller))
  },
  'installs.delete': async ({ context, params, caller }) => {
    const { id } = await findInstall(context.db, params.ref)
    return { id, name: await deleteInstall(context, { id }, caller) }
  },
  'installs.teardown': async ({ context, params, body, caller }) => {
    const install = await findInstall(context.db, params.ref)
    return requireRun(context.db, await tearDown(context, install, body.components, caller))
  },
  'installs.joinToken': async ({ context, params, caller, elevate }) =>
    createInstallToken(context, await findInstall(context.db, params.ref), caller, elevate),
  'installs.recipient': async ({ context, params }) =>
    recipientOf(context, await findInstall(context.db, params.ref)),
  'installs.update': async ({ context, params, body, caller }) => {
    const install = await findInstall(context.db, params.ref)
    const runIds = await updateInstall(context, install, body, byCaller(caller))
    const runs = await Promise.all(runIds.map((id) => requireRun(context.db, id)))
    return { install: await installView(context.db, install.id), runs }
  },
} satisfies Partial<Handlers>
