import {
  canonicalBytes,
  ConfigRenderError,
  hasLoneSurrogate,
  SERVER_CHAIN,
  sizeWords,
  withTemplateDependencies,
  type App,
} from '@tenon/core'
import { MEDIA_TYPES } from '@tenon/protocol'
import type { Context } from '../context.ts'
import { sha256 } from '../crypto.ts'
import { ApiFailure, notFound } from '../errors.ts'
import { actorOf, type Caller } from '../people/actor.ts'
import { requireSoundSchedules, scheduleActions } from '../schedules/actions.ts'
import { cancelLocked } from '../jobs/control.ts'
import { createBuilds } from '../builds/create.ts'
import { requireSoundGraph } from '../runs/create.ts'
import { newestVersion } from '../apps/newest-version.ts'
import { lockJob } from '../store/locks.ts'
import { LayerTooLarge } from '../artifacts/registry-store.ts'
import type { Db } from '../store/database.ts'
import { anyOf } from '../store/statements.ts'
import { transact } from '../store/transaction.ts'
import { pageOf, type Handlers } from './handler.ts'

const MAX_SOURCE_BYTES = 268_435_456
export const SOURCES = 'tenon/sources'

export const appHandlers = {
  'apps.list': async ({ context, query }) => {
    const rows = await context.db
      .selectFrom('app')
      .selectAll()
      .$if(query.after !== undefined, (q) => q.where('id', '>', query.after!))
      .orderBy('id')
      .limit(query.limit + 1)
      .execute()
    const page = pageOf(rows, query.limit, (row) => row)
    return { items: await Promise.all(page.items.map((row) => appView(context.db, row))), next: page.next }
  },
  'apps.get': async ({ context, params }) => appView(context.db, await findApp(context.db, params.ref)),
  'apps.sync': async ({ context, body, caller }) => syncApp(context, body.app, caller),
  'apps.versions': async ({ context, params, query }) => {
    const app = await findApp(context.db, params.ref)
    const before = Number(query.after)
    const rows = await context.db
      .selectFrom('app_version')
      .select(['number', 'digest', 'created_at'])
      .where('app_id', '=', app.id)
      .$if(Number.isInteger(before), (q) => q.where('number', '<', before))
      .orderBy('number', 'desc')
      .limit(query.limit + 1)
      .execute()
    const items = rows.slice(0, query.limit).map(versionView)
    return { items, next: rows.length > query.limit ? String(items.at(-1)!.number) : null }
  },
  'apps.version': async ({ context, params }) => {
    const app = await findApp(context.db, params.ref)
    const row = await context.db
      .selectFrom('app_version')
      .select(['number', 'digest', 'created_at', 'content'])
      .where('app_id', '=', app.id)
      .where('number', '=', params.number)
      .executeTakeFirst()
    if (!row)
      throw new ApiFailure('not_found', `app ${app.name} has no version ${params.number}`, {
        remedy: 'List them: `GET /api/v1/apps/:ref/versions`.',
      })
    return { ...versionView(row), app: row.content }
  },
  'sources.put': async ({ context, body, caller }) => {
    try {
      const stored = await context.registry.storeLayer(
        SOURCES,
        MEDIA_TYPES.source,
        MEDIA_TYPES.folderLayer,
        body,
        MAX_SOURCE_BYTES,
      )
      await transact(context, async (tx) =>
        tx.audit(SERVER_CHAIN, {
          actor: actorOf(caller),
          action: 'source.stored',
          subject: { type: 'artifact', id: `${SOURCES}@${stored.digest}` },
          outcome: 'ok',
          manifestDigest: null,
          details: { size: stored.size },
        }),
      )
      return stored
    } catch (error) {
      if (!(error instanceof LayerTooLarge)) throw error
      throw new ApiFailure('too_large', `a packed source may have ${sizeWords(MAX_SOURCE_BYTES)}`, {
        remedy: 'Leave out what the build does not need with an ignore file.',
      })
    }
  },
  'builds.create': async ({ context, params, body, caller }) => {
    const app = await findApp(context.db, params.ref)
    const ids = await createBuilds(context, app, body.components, caller)
    return { builds: await Promise.all(ids.map((id) => buildView(context.db, id))) }
  },
  'builds.list': async ({ context, query }) => {
    const app = query.app === undefined ? undefined : await findApp(context.db, query.app)
    const rows = await context.db
      .selectFrom('build')
      .select('build.id')
      .$if(app !== undefined, (q) => q.where('build.app_id', '=', app!.id))
      .$if(query.after !== undefined, (q) => q.where('build.id', '<', query.after!))
      .orderBy('build.id', 'desc')
      .limit(query.limit + 1)
      .execute()
    const page = pageOf(rows, query.limit, (row) => row.id)
    return { items: await Promise.all(page.items.map((id) => buildView(context.db, id))), next: page.next }
  },
  'builds.get': async ({ context, params }) => buildView(context.db, params.id),
  'builds.cancel': async ({ context, params, caller }) => {
    const build = await buildView(context.db, params.id)
    if (build.finishedAt) throw new ApiFailure('wrong_state', `this build has already ${build.status}`)
    await transact(context, async (tx) => {
      const job = build.jobId ? await lockJob(tx, build.jobId) : undefined
      if (job) await cancelLocked(context, tx, job, caller)
    })
    return buildView(context.db, params.id)
  },
} satisfies Partial<Handlers>

async function syncApp(context: Context, sent: App, caller: Caller) {
  requireSoundText(sent)
  const app = requireSoundTemplates(sent)
  requireSoundGraph(app)
  requireSoundSchedules(app, context.now())
  const digest = `sha256:${sha256(canonicalBytes(app))}`
  const changed = await transact(context, async (tx) => {
    const types = [...new Set(app.components.map((c) => c.type))]
    const known = await tx.db.selectFrom('plugin').select('name').where('name', '=', anyOf(types)).execute()
    const problems = app.components
      .filter((c) => !known.some((k) => k.name === c.type))
      .map((c) => ({ path: `components.${c.name}.type`, message: `no plugin handles the type ${c.type}` }))
    if (problems.length > 0)
      throw new ApiFailure('bad_app', 'some components have a type that this server has no plugin for', {
        problems,
      })
    await tx.db
      .insertInto('app')
      .values({ id: context.newId('app'), name: app.name, created_at: tx.at })
      .onConflict((c) => c.column('name').doNothing())
      .execute()
    const row = await tx.db
      .selectFrom('app')
      .selectAll()
      .where('name', '=', app.name)
      .forUpdate()
      .executeTakeFirstOrThrow()
    const last = await tx.db
      .selectFrom('app_version')
      .select(['number', 'digest'])
      .where('app_id', '=', row.id)
      .orderBy('number', 'desc')
      .limit(1)
      .executeTakeFirst()
    if (last?.digest === digest) return false
    const number = (last?.number ?? 0) + 1
    await tx.db
      .insertInto('app_version')
      .values({
        id: context.newId('appVersion'),
        app_id: row.id,
        number,
        content: JSON.stringify(app),
        digest,
        created_at: tx.at,
      })
      .execute()
    await scheduleActions(context, tx, { id: row.id, content: app })
    tx.audit(SERVER_CHAIN, {
      actor: actorOf(caller),
      action: 'app.synced',
      subject: { type: 'app', id: row.id },
      outcome: 'ok',
      manifestDigest: null,
      details: { name: app.name, version: number, digest },
    })
    return true
  })
  return { app: await appView(context.db, await findApp(context.db, app.name)), changed }
}

/** Half a surrogate pair has no canonical form, so an app that holds one has no digest. */
function requireSoundText(app: App): void {
  const texts = [app.displayName, app.description, ...app.components.map((c) => c.type)]
  if (texts.some(hasLoneSurrogate))
    throw new ApiFailure('bad_app', 'the app holds text with broken Unicode', {
      remedy: 'Save its files as UTF-8.',
    })
}

/** By name or id. */
export async function findApp(
  db: Db,
  ref: string,
): Promise<{ id: string; name: string; created_at: string }> {
  const row = await db
    .selectFrom('app')
    .selectAll()
    .where((eb) => eb.or([eb('name', '=', ref), eb('id', '=', ref)]))
    .executeTakeFirst()
  if (!row) throw notFound('app', ref)
  return row
}

async function appView(db: Db, row: { id: string; name: string; created_at: string }) {
  const version = await newestVersion(db, row.id)
  const builds = await db
    .selectFrom('build')
    .distinctOn('component')
    .select(['component', 'artifact_digest'])
    .where('app_id', '=', row.id)
    .where('status', '=', 'succeeded')
    .orderBy('component')
    .orderBy('id', 'desc')
    .execute()
  const { displayName, description, components } = version.content
  return {
    id: row.id,
    name: row.name,
    displayName,
    description,
    version: version.number,
    components: components.map((c) => ({
      name: c.name,
      type: c.type,
      dependencies: c.dependencies,
      artifact: builds.find((b) => b.component === c.name)?.artifact_digest ?? null,
    })),
    createdAt: row.created_at,
  }
}

function versionView(row: { number: number; digest: string; created_at: string }) {
  return { number: row.number, digest: row.digest, createdAt: row.created_at }
}

export async function buildView(db: Db, id: string) {
  const row = await db
    .selectFrom('build')
    .innerJoin('app', 'app.id', 'build.app_id')
    .innerJoin('app_version', 'app_version.id', 'build.app_version_id')
    .selectAll('build')
    .select(['app.name as app', 'app_version.number as version'])
    .where('build.id', '=', id)
    .executeTakeFirst()
  if (!row) throw notFound('build', id)
  return {
    id: row.id,
    app: row.app,
    appVersion: row.version,
    component: row.component,
    status: row.status,
    jobId: row.job_id,
    artifact: row.artifact_digest,
    message: row.message,
    createdAt: row.created_at,
    finishedAt: row.finished_at,
  }
}

/** What templates read of other components is a dependency, whether or not the config says so. */
function requireSoundTemplates(app: App): App {
  try {
    return withTemplateDependencies(app)
  } catch (error) {
    if (!(error instanceof ConfigRenderError)) throw error
    throw new ApiFailure('bad_app', `a template cannot be read: ${error.message}`, {
      remedy: 'Find its place with `tenon validate`.',
    })
  }
}
