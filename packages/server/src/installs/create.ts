import type { Routes } from '@tenon/protocol'
import type { z } from 'zod'
import { newestVersion } from '../apps/newest-version.ts'
import { findApp } from '../apps/views.ts'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { type Caller, actorOf, byCaller } from '../people/actor.ts'
import { createRun } from '../runs/create.ts'
import { transact } from '../store/transaction.ts'
import { freeName } from './free-name.ts'
import { requireToggles } from './switches.ts'
import { requireInputs } from './update.ts'

type NewInstall = z.output<Routes['installs.create']['body']>

/** The install, and the run that provisions it. */
export async function createInstall(
  context: Context,
  body: NewInstall,
  caller: Caller,
): Promise<{ id: string; runId: string }> {
  const app = await findApp(context.db, body.app)
  return transact(context, async (tx) => {
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
    for (const follower of context.followers.installs)
      await follower.created?.(context, tx, { id: install.id, app: { id: app.id, content: scheduled } })
    return {
      id: install.id,
      runId: await createRun(context, tx, {
        install,
        decide: () => ({ kind: 'provision' }),
        by: byCaller(caller),
      }),
    }
  })
}
