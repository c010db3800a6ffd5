import type { App, Decision } from '@tenon/core'
import { newestVersion } from '../apps/newest-version.ts'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import type { Decider } from '../people/actor.ts'
import type { Tx } from '../store/transaction.ts'
import { requireBuiltActions } from './action-builds.ts'
import { activateNext } from './advance.ts'
import { newestBuilds } from './newest-builds.ts'
import { planSteps } from './plan-steps.ts'

export interface RunRequest {
  install: { id: string; app_id: string }
  decide: (app: App) => Decision | Promise<Decision>
  by: Decider
  /** Builds other than the newest, by component. */
  builds?: { [component: string]: string }
}

/** One decision becomes a run with its steps; it starts at once, or waits for the active one on the same install. */
export async function createRun(context: Context, tx: Tx, request: RunRequest): Promise<string> {
  const { install, by } = request
  const version = await newestVersion(tx.db, install.app_id)
  const app = version.content
  const decision = await request.decide(app)
  const id = context.newId('run')
  await tx.db
    .insertInto('run')
    .values({
      id,
      install_id: install.id,
      app_version_id: version.id,
      kind: decision.kind,
      status: 'queued',
      created_by: by.name,
      creator_kind: by.actor.type,
      creator_id: by.actor.id,
      created_at: tx.at,
    })
    .execute()
  const steps = await planSteps(context, tx, id, install, decision, app)
  if (decision.kind !== 'teardown' && decision.kind !== 'deprovision') requireBuiltActions(app, steps)
  const deployed = steps.filter((s) => s.kind === 'deploy').map((s) => s.component!)
  await createDeploys(context, tx, request, id, deployed)
  tx.audit(install.id, {
    actor: by.actor,
    action: 'run.created',
    subject: { type: 'run', id },
    outcome: 'ok',
    manifestDigest: null,
    details: { kind: decision.kind, steps: steps.map((s) => s.key), appVersion: version.number },
  })
  await activateNext(context, tx, install.id)
  return id
}

/** Pins each component to the newest build there is now, or the one that was named: what is decided is what is deployed. */
async function createDeploys(
  context: Context,
  tx: Tx,
  { install, builds: named = {} }: RunRequest,
  runId: string,
  components: string[],
): Promise<void> {
  if (components.length === 0) return
  const builds = await newestBuilds(tx, install.app_id, components, named)
  const missing = components.filter((name) => !builds.some((b) => b.component === name))
  if (missing.length > 0) {
    throw new ApiFailure('no_build', `not built yet: ${missing.join(', ')}`, {
      remedy: 'Build first: `tenon builds create`.',
    })
  }
  await tx.db
    .insertInto('deploy')
    .values(
      builds.map((b) => ({
        id: context.newId('deploy'),
        install_id: install.id,
        component: b.component,
        build_id: b.id,
        run_id: runId,
        artifact_repository: b.artifact_repository!,
        artifact_digest: b.artifact_digest!,
        status: 'pending' as const,
        created_at: tx.at,
      })),
    )
    .execute()
}
