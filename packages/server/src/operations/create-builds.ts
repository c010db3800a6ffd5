import { SERVER_CHAIN } from '@tenon/core'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { actorOf, type Caller } from './actor.ts'
import { createJob } from './create-job.ts'
import { loadPlugins, pluginFor, type Plugins } from './manifests.ts'

/** One build, one job, per component of the app's newest version, from sources that were sent before. */
export async function createBuilds(
  context: Context,
  app: { id: string; name: string },
  wanted: { name: string; source: string }[],
  caller: Caller,
): Promise<string[]> {
  return transact(context, async (tx) => {
    const version = await tx.db
      .selectFrom('app_version')
      .selectAll()
      .where('app_id', '=', app.id)
      .orderBy('number', 'desc')
      .executeTakeFirstOrThrow()
    const plugins = await loadPlugins(tx)
    const ids: string[] = []
    for (const { name, source } of wanted) {
      const component = version.content.components.find((c) => c.name === name)
      if (!component)
        throw new ApiFailure('not_found', `app ${app.name} has no component ${name}`, {
          remedy: 'Sync the app first: `tenon apps sync`.',
        })
      ids.push(createBuild(context, tx, app, version.id, component, source, plugins, caller))
    }
    return ids
  })
}

function createBuild(
  context: Context,
  tx: Tx,
  app: { id: string; name: string },
  versionId: string,
  component: { name: string; type: string; config: object },
  source: string,
  plugins: Plugins,
  caller: Caller,
): string {
  const id = context.newId('build')
  tx.write(
    tx.db.insertInto('build').values({
      id,
      app_id: app.id,
      app_version_id: versionId,
      component: component.name,
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
      operations: [
        {
          operation: 'build',
          plugin: pluginFor(plugins, component.type),
          component: component.name,
          artifacts: [{ name: 'source', repository: 'tenon/sources', digest: source }],
          approvedPlan: null,
          config: { component: component.config as never, repository: `apps/${app.name}/${component.name}` },
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
    details: { app: app.name, component: component.name, source },
  })
  return id
}
