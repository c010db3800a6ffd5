import { buildables, SERVER_CHAIN, type Buildable, type Json } from '@tenon/core'
import { newestVersion } from '../apps/newest-version.ts'
import { loadPlugins, pluginFor, type Plugins } from '../artifacts/plugins.ts'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { createJob } from '../jobs/create.ts'
import { poolOf } from '../jobs/sign-manifest.ts'
import { actorOf, type Caller } from '../people/actor.ts'
import { transact, type Tx } from '../store/transaction.ts'

/** One build, one job, per component (or built action) of the app's newest version, from a source sent before or from where it says. */
export async function createBuilds(
  context: Context,
  app: { id: string; name: string },
  wanted: { name: string; source: string | null }[],
  caller: Caller,
): Promise<string[]> {
  return transact(context, async (tx) => {
    const version = await newestVersion(tx.db, app.id)
    const [plugins] = await Promise.all([
      loadPlugins(tx),
      tx.slots.confirm(
        tx.db,
        wanted.map(() => poolOf('build', null)),
      ),
    ])
    const known = buildables(version.content)
    const ids: string[] = []
    for (const { name, source } of wanted) {
      const buildable = known.find((each) => each.name === name)
      if (!buildable) throw notBuildable(app.name, name)
      if (source === null && buildable.source?.kind === 'folder')
        throw new ApiFailure('bad_request', `the source of ${name} was not sent`, {
          remedy: 'Send it first with `PUT /api/v1/sources`, as `tenon builds create` does.',
        })
      ids.push(createBuild(context, tx, app, version.id, buildable, source, plugins, caller))
    }
    return ids
  })
}

/** The same version of the app and the same source once more, as a build of its own. */
export async function retryBuild(context: Context, id: string, caller: Caller): Promise<string> {
  return transact(context, async (tx) => {
    const build = await tx.db
      .selectFrom('build')
      .innerJoin('app', 'app.id', 'build.app_id')
      .innerJoin('app_version', 'app_version.id', 'build.app_version_id')
      .select(['build.app_id', 'build.app_version_id', 'build.component', 'build.status'])
      .select(['build.source_digest', 'app.name', 'app_version.content'])
      .where('build.id', '=', id)
      .executeTakeFirst()
    if (!build) throw new ApiFailure('not_found', `there is no build ${id}`, { remedy: LIST_BUILDS })
    if (build.status !== 'failed' && build.status !== 'canceled')
      throw new ApiFailure('wrong_state', `this build is ${build.status}`, {
        remedy: 'Only what failed or was canceled is built again; otherwise: `tenon builds create`.',
      })
    const buildable = buildables(build.content).find(({ name }) => name === build.component)!
    const app = { id: build.app_id, name: build.name }
    const [plugins] = await Promise.all([loadPlugins(tx), tx.slots.confirm(tx.db, [poolOf('build', null)])])
    return createBuild(
      context,
      tx,
      app,
      build.app_version_id,
      buildable,
      build.source_digest,
      plugins,
      caller,
    )
  })
}

function notBuildable(app: string, name: string): ApiFailure {
  if (!name.startsWith('action:'))
    return new ApiFailure('not_found', `app ${app} has no component ${name}`, {
      remedy: 'Sync the app first: `tenon apps sync`.',
    })
  return new ApiFailure('not_found', `app ${app} has nothing to build for ${name}`, {
    remedy: 'Only an action with a step in a repository is built. Sync the app first: `tenon apps sync`.',
  })
}

const LIST_BUILDS = 'List them: `tenon builds list`.'

function createBuild(
  context: Context,
  tx: Tx,
  app: { id: string; name: string },
  versionId: string,
  buildable: Buildable,
  source: string | null,
  plugins: Plugins,
  caller: Caller,
): string {
  const id = context.newId('build')
  tx.write(
    tx.db.insertInto('build').values({
      id,
      app_id: app.id,
      app_version_id: versionId,
      component: buildable.name,
      status: 'queued',
      source_digest: source,
      created_at: tx.at,
    }),
  )
  const jobId = createJob(
    context,
    tx,
    {
      kind: 'build',
      role: 'build',
      installId: null,
      limits: { timeoutSeconds: buildable.timeoutSeconds },
      operations: [
        {
          operation: 'build',
          plugin: pluginFor(plugins, buildable.type),
          component: buildable.component,
          artifacts: source === null ? [] : [{ name: 'source', repository: 'tenon/sources', digest: source }],
          approvedPlan: null,
          config: {
            component: buildable.config,
            repository: `apps/${app.name}/${buildable.path}`,
            source: buildable.source as Json,
            images: buildable.images,
          },
        },
      ],
    },
    { buildId: id },
  )
  tx.write(tx.db.updateTable('build').set({ job_id: jobId }).where('id', '=', id))
  tx.audit(SERVER_CHAIN, {
    actor: actorOf(caller),
    action: 'build.created',
    subject: { type: 'build', id },
    outcome: 'ok',
    manifestDigest: null,
    details: { app: app.name, component: buildable.name, source },
  })
  return id
}
