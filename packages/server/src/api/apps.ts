import { syncApp } from '../apps/sync.ts'
import { appView, appViews, findApp, listApps, listVersions, versionOf } from '../apps/views.ts'
import { storeSource } from '../artifacts/sources.ts'
import { cancelBuild } from '../builds/cancel.ts'
import { createBuilds, retryBuild } from '../builds/create.ts'
import { buildView, buildViews, listBuilds } from '../builds/views.ts'
import { pageOf, type Handlers } from './handler.ts'

export const appHandlers = {
  'apps.list': async ({ context: { db }, query: { after, limit } }) => {
    const page = pageOf(await listApps(db, { after, limit: limit + 1 }), limit, (row) => row)
    return { items: await appViews(db, page.items), next: page.next }
  },
  'apps.get': async ({ context: { db }, params }) => appView(db, await findApp(db, params.ref)),
  'apps.sync': async ({ context, body, caller }) => {
    const { name, changed } = await syncApp(context, body.app, caller)
    return { app: await appView(context.db, await findApp(context.db, name)), changed }
  },
  'apps.versions': async ({ context: { db }, params, query: { after, limit } }) => {
    const app = await findApp(db, params.ref)
    const before = Number(after)
    const rows = await listVersions(db, app.id, Number.isInteger(before) ? before : undefined, limit + 1)
    const items = rows.slice(0, limit)
    return { items, next: rows.length > limit ? String(items.at(-1)!.number) : null }
  },
  'apps.version': async ({ context: { db }, params }) =>
    versionOf(db, await findApp(db, params.ref), params.number),
  'sources.put': async ({ context, body, caller }) => storeSource(context, body, caller),
  'builds.create': async ({ context, params, body, caller }) => {
    const app = await findApp(context.db, params.ref)
    const ids = await createBuilds(context, app, body.components, caller)
    return { builds: await buildViews(context.db, ids) }
  },
  'builds.list': async ({ context: { db }, query: { app: ref, after, limit } }) => {
    const app = ref === undefined ? undefined : await findApp(db, ref)
    const rows = await listBuilds(db, { appId: app?.id, after, limit: limit + 1 })
    const page = pageOf(rows, limit, ({ id }) => id)
    return { items: await buildViews(db, page.items), next: page.next }
  },
  'builds.get': async ({ context, params }) => buildView(context.db, params.id),
  'builds.cancel': async ({ context, params, caller }) => {
    await cancelBuild(context, params.id, caller)
    return buildView(context.db, params.id)
  },
  'builds.retry': async ({ context, params, caller }) =>
    buildView(context.db, await retryBuild(context, params.id, caller)),
} satisfies Partial<Handlers>
