import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { actorOf, byCaller } from '../people/actor.ts'
import { scheduleActions } from '../schedules/actions.ts'
import { createRun } from '../runs/create.ts'
import { newestVersion } from '../apps/newest-version.ts'
import { deleteInstall } from '../installs/delete.ts'
import { freeName } from '../installs/free-name.ts'
import { createJoinToken } from '../agents/join-tokens.ts'
import { requireToggles } from '../installs/switches.ts'
import { requireInputs, updateInstall } from '../installs/update.ts'
import { keyChangesOf } from '../agents/keys.ts'
import { transact } from '../store/transaction.ts'
import { runView } from '../store/views.ts'
import { findApp } from './apps.ts'
import { pageOf, type Call, type Handlers } from './handler.ts'
import { findInstall, installView } from '../installs/view.ts'

const JOIN_TOKEN_SECONDS = 3600

export const installHandlers = {
  'installs.list': async ({ context, query }) => {
    const app = query.app === undefined ? undefined : await findApp(context.db, query.app)
    const rows = await context.db
      .selectFrom('install')
      .select(['install.id'])
      .where('install.deleted_at', 'is', null)
      .$if(app !== undefined, (q) => q.where('install.app_id', '=', app!.id))
      .$if(query.after !== undefined, (q) => q.where('install.id', '>', query.after!))
      .orderBy('install.id')
      .limit(query.limit + 1)
      .execute()
    const page = pageOf(rows, query.limit, (row) => row.id)
    return { items: await Promise.all(page.items.map((id) => installView(context.db, id))), next: page.next }
  },
  'installs.get': async ({ context, params }) =>
    installView(context.db, (await findInstall(context.db, params.ref)).id),
  'installs.create': createInstall,
  'installs.deprovision': async ({ context, params, caller }) => {
    const install = await findInstall(context.db, params.ref)
    if (install.status === 'deprovisioned')
      throw new ApiFailure('wrong_state', `install ${install.name} is already deprovisioned`)
    const runId = await transact(context, (tx) =>
      createRun(context, tx, { install, decide: () => ({ kind: 'deprovision' }), by: byCaller(caller) }),
    )
    return (await runView(context.db, runId))!
  },
  'installs.delete': async ({ context, params, caller }) => {
    const { id } = await findInstall(context.db, params.ref)
    return { id, name: await deleteInstall(context, { id }, caller) }
  },
  'installs.teardown': async ({ context, params, body, caller }) => {
    const install = await findInstall(context.db, params.ref)
    const there = await context.db
      .selectFrom('install_component')
      .select('component')
      .where('install_id', '=', install.id)
      .execute()
    const names = there.map((row) => row.component)
    const missing = (body.components ?? []).filter((name) => !names.includes(name))
    if (missing.length > 0)
      throw new ApiFailure('not_found', `not on install ${install.name}: ${missing.join(', ')}`, {
        remedy: `There is: ${names.join(', ') || 'nothing'}.`,
      })
    const runId = await transact(context, (tx) =>
      createRun(context, tx, {
        install,
        decide: () => ({ kind: 'teardown', components: body.components ?? names }),
        by: byCaller(caller),
      }),
    )
    return (await runView(context.db, runId))!
  },
  'installs.joinToken': async ({ context, params, caller, elevate }) => {
    const install = await findInstall(context.db, params.ref)
    return transact(context, async (tx) => {
      const made = await createJoinToken(
        context,
        tx,
        { role: 'install', installId: install.id, expiresInSeconds: JOIN_TOKEN_SECONDS, mayReplace: true },
        actorOf(caller),
      )
      if (made.replaces) elevate()
      return made
    })
  },
  'installs.recipient': async ({ context, params }) => {
    const install = await findInstall(context.db, params.ref)
    const agent = await context.db
      .selectFrom('agent')
      .selectAll()
      .where('install_id', '=', install.id)
      .where('status', '=', 'enrolled')
      .executeTakeFirst()
    if (!agent?.recipient || !agent.recipient_signature)
      throw await noRecipient(context, install, agent !== undefined)
    const changes = await keyChangesOf(context.db, [agent.id])
    return {
      installId: install.id,
      installName: install.name,
      agentId: agent.id,
      agentPublicKey: agent.public_key,
      recipient: agent.recipient,
      signature: agent.recipient_signature,
      keyChanges: changes.get(agent.id) ?? [],
    }
  },
  'installs.update': async ({ context, params, body, caller }) => {
    const install = await findInstall(context.db, params.ref)
    const runIds = await updateInstall(context, install, body, byCaller(caller))
    const runs = await Promise.all(runIds.map((id) => runView(context.db, id)))
    return {
      install: await installView(context.db, install.id),
      runs: runs.filter((run) => run !== undefined),
    }
  },
} satisfies Partial<Handlers>

/** Nobody's key is there to seal a value to: its agent is still to come, or was and is no more. */
async function noRecipient(
  { db }: Context,
  install: { id: string; name: string },
  isEnrolled: boolean,
): Promise<ApiFailure> {
  if (isEnrolled)
    return new ApiFailure('no_agent', `the agent of install ${install.name} has not connected yet`, {
      remedy: 'Wait until it has connected once: `tenon agent list`.',
    })
  const former = await db
    .selectFrom('agent')
    .select('id')
    .where('install_id', '=', install.id)
    .limit(1)
    .execute()
  const message =
    former.length === 0
      ? `no agent of install ${install.name} has enrolled yet`
      : `no agent of install ${install.name} is enrolled any more: it is revoked or replaced`
  return new ApiFailure('no_agent', message, {
    remedy: `Start one with a token of \`tenon installs join-token ${install.name}\`.`,
  })
}

async function createInstall({ context, body, caller }: Call<'installs.create'>) {
  const app = await findApp(context.db, body.app)
  const { id, runId } = await transact(context, async (tx) => {
    const { content } = await newestVersion(tx.db, app.id)
    const inputs = requireInputs(content, body.inputs)
    requireToggles(content, body.toggles ?? {})
    const install = { id: context.newId('install'), app_id: app.id, sandbox_type: body.sandbox.type }
    await freeName(tx, body.name)
    const added = await tx.db
      .insertInto('install')
      .values({
        ...install,
        name: body.name,
        status: 'new',
        sandbox_config: JSON.stringify(body.sandbox.config),
        inputs: JSON.stringify(inputs),
        toggles: JSON.stringify(body.toggles ?? {}),
        overrides: JSON.stringify(body.overrides ?? {}),
        ...(body.approval === undefined ? {} : { approval: body.approval }),
        created_at: tx.at,
      })
      .onConflict((c) => c.column('name').doNothing())
      .returning('id')
      .executeTakeFirst()
    if (!added)
      throw new ApiFailure('name_taken', `an install named ${body.name} exists already`, {
        remedy: 'Choose another name.',
      })
    tx.audit(install.id, {
      actor: actorOf(caller),
      action: 'install.created',
      subject: { type: 'install', id: install.id },
      outcome: 'ok',
      manifestDigest: null,
      details: { name: body.name, app: app.name, sandbox: body.sandbox.type },
    })
    // Read again: the row that refers to the app keeps newer versions out from here on.
    const { content: scheduled } = await newestVersion(tx.db, app.id)
    await scheduleActions(context, tx, { id: app.id, content: scheduled }, install.id)
    return {
      id: install.id,
      runId: await createRun(context, tx, {
        install,
        decide: () => ({ kind: 'provision' }),
        by: byCaller(caller),
      }),
    }
  })
  return { install: await installView(context.db, id), run: (await runView(context.db, runId)) ?? null }
}
