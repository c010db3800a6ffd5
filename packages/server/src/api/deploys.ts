import { type App, type Decision, disabledComponents, type Switches } from '@tenon/core'
import type { Context } from '../context.ts'
import { ApiFailure, notFound } from '../errors.ts'
import { byCaller } from '../people/actor.ts'
import { changedComponents } from '../installs/changed-components.ts'
import { createRun, type RunRequest } from '../runs/create.ts'
import { transact } from '../store/transaction.ts'
import { runView } from '../store/views.ts'
import { pageOf, type Call, type Handlers } from './handler.ts'
import { findInstall } from '../installs/view.ts'

export const deployHandlers = {
  'deploys.create': createDeploy,
  'deploys.rollback': rollBack,
  'actions.run': async ({ context, params, caller }) => {
    const install = await findActiveInstall(context, params.ref)
    const decide = (app: App): Decision => {
      if (app.actions?.some(({ name }) => name === params.name))
        return { kind: 'action', action: params.name }
      throw new ApiFailure('not_found', `app ${app.name} has no action ${params.name}`, {
        remedy: knownNames('action', app.actions ?? []),
      })
    }
    return startRun(context, { install, decide, by: byCaller(caller) })
  },
  'deploys.list': async ({ context, params, query }) => {
    const install = await findInstall(context.db, params.ref)
    const rows = await context.db
      .selectFrom('deploy')
      .selectAll()
      .where('install_id', '=', install.id)
      .$if(query.after !== undefined, (q) => q.where('id', '<', query.after!))
      .orderBy('id', 'desc')
      .limit(query.limit + 1)
      .execute()
    return pageOf(rows, query.limit, (row) => ({
      id: row.id,
      installId: row.install_id,
      component: row.component,
      buildId: row.build_id,
      artifact: row.artifact_digest,
      runId: row.run_id,
      status: row.status,
      createdAt: row.created_at,
      finishedAt: row.finished_at,
    }))
  },
} satisfies Partial<Handlers>

async function createDeploy({ context, params, body, caller }: Call<'deploys.create'>) {
  const install = await findActiveInstall(context, params.ref)
  const runId = await transact(context, (tx) =>
    createRun(context, tx, {
      install,
      by: byCaller(caller),
      ...(body.builds === undefined ? {} : { builds: body.builds }),
      decide: async (app) => {
        const wanted = wantedComponents(app, install, body.components)
        if (body.changed !== true) return { kind: 'deploy', components: wanted }
        const changed = await changedComponents(tx, install, app)
        return { kind: 'deploy', components: wanted.filter((name) => changed.has(name)) }
      },
    }),
  )
  return (await runView(context.db, runId))!
}

function knownNames(what: string, parts: readonly { name: string }[]): string {
  const names = parts.map(({ name }) => name)
  return names.length === 0 ? `It has no ${what}s.` : `It has: ${names.join(', ')}.`
}

/** Everything that is not off, or what is named; naming what is off or unknown is a mistake. */
function wantedComponents(app: App, switches: Switches, named: string[] | undefined): string[] {
  const all = app.components.map((c) => c.name)
  const off = disabledComponents(app, switches)
  const unknown = (named ?? []).filter((name) => !all.includes(name))
  if (unknown.length > 0)
    throw new ApiFailure('not_found', `app ${app.name} has no component ${unknown.join(', ')}`, {
      remedy: knownNames('component', app.components),
    })
  const disabled = (named ?? []).filter((name) => off.has(name))
  if (disabled.length > 0)
    throw new ApiFailure('wrong_state', `switched off on this install: ${disabled.join(', ')}`, {
      remedy: 'Switch it, or what it stands on, on first: `tenon installs update --enable`.',
    })
  return named ?? all.filter((name) => !off.has(name))
}

async function rollBack({ context, params, caller }: Call<'deploys.rollback'>) {
  const install = await findActiveInstall(context, params.ref)
  const deploy = await context.db
    .selectFrom('deploy')
    .select(['component', 'build_id', 'status'])
    .where('id', '=', params.id)
    .where('install_id', '=', install.id)
    .executeTakeFirst()
  if (!deploy) throw notFound('deploy', params.id)
  if (deploy.status !== 'succeeded' && deploy.status !== 'skipped')
    throw new ApiFailure('wrong_state', `deploy ${params.id} is ${deploy.status}: it never ran well`, {
      remedy: 'Choose one that succeeded: `tenon deploys list`.',
    })
  return startRun(context, {
    install,
    by: byCaller(caller),
    builds: { [deploy.component]: deploy.build_id },
    decide: () => ({ kind: 'deploy', components: [deploy.component] }),
  })
}

async function findActiveInstall(context: Context, ref: string) {
  const install = await findInstall(context.db, ref)
  if (install.status === 'deprovisioned' || install.status === 'deprovisioning')
    throw new ApiFailure('wrong_state', `install ${install.name} is ${install.status}`)
  return install
}

async function startRun(context: Context, request: RunRequest) {
  const runId = await transact(context, (tx) => createRun(context, tx, request))
  return (await runView(context.db, runId))!
}
