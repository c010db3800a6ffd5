import { disabledComponents, type App, type Decision, type Switches } from '@tenon/core'
import type { Context } from '../context.ts'
import { ApiFailure, notFound } from '../errors.ts'
import { byCaller, type Caller } from '../people/actor.ts'
import { createRun, type RunRequest } from '../runs/create.ts'
import { transact } from '../store/transaction.ts'
import { changedComponents } from './changed-components.ts'
import type { FoundInstall } from './views.ts'

export interface DeployRequest {
  components?: string[] | undefined
  /** Builds other than the newest, by component. */
  builds?: { [component: string]: string } | undefined
  /** Only what differs from what is there. */
  changed?: boolean | undefined
}

export async function deploy(
  context: Context,
  install: FoundInstall,
  { components, builds, changed: isChangedOnly }: DeployRequest,
  caller: Caller,
): Promise<string> {
  requireLiving(install)
  return transact(context, (tx) =>
    createRun(context, tx, {
      install,
      by: byCaller(caller),
      ...(builds === undefined ? {} : { builds }),
      decide: async (app) => {
        const wanted = wantedComponents(app, install, components)
        if (isChangedOnly !== true) return { kind: 'deploy', components: wanted }
        const changed = await changedComponents(tx, install, app)
        return { kind: 'deploy', components: wanted.filter((name) => changed.has(name)) }
      },
    }),
  )
}

/** What an earlier deploy brought comes back. */
export async function rollBack(
  context: Context,
  install: FoundInstall,
  deployId: string,
  caller: Caller,
): Promise<string> {
  requireLiving(install)
  const before = await context.db
    .selectFrom('deploy')
    .select(['component', 'build_id', 'status'])
    .where('id', '=', deployId)
    .where('install_id', '=', install.id)
    .executeTakeFirst()
  if (!before) throw notFound('deploy', deployId)
  if (before.status !== 'succeeded' && before.status !== 'skipped')
    throw new ApiFailure('wrong_state', `deploy ${deployId} is ${before.status}: it never ran well`, {
      remedy: 'Choose one that succeeded: `tenon deploys list`.',
    })
  return startRun(context, {
    install,
    by: byCaller(caller),
    builds: { [before.component]: before.build_id },
    decide: () => ({ kind: 'deploy', components: [before.component] }),
  })
}

export async function runAction(
  context: Context,
  install: FoundInstall,
  action: string,
  caller: Caller,
): Promise<string> {
  requireLiving(install)
  const decide = (app: App): Decision => {
    if (app.actions?.some(({ name }) => name === action)) return { kind: 'action', action }
    throw new ApiFailure('not_found', `app ${app.name} has no action ${action}`, {
      remedy: knownNames('action', app.actions ?? []),
    })
  }
  return startRun(context, { install, decide, by: byCaller(caller) })
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

function requireLiving({ name, status }: FoundInstall): void {
  if (status === 'deprovisioned' || status === 'deprovisioning')
    throw new ApiFailure('wrong_state', `install ${name} is ${status}`)
}

function startRun(context: Context, request: RunRequest): Promise<string> {
  return transact(context, (tx) => createRun(context, tx, request))
}
