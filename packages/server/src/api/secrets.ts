import { actorOf } from '../people/actor.ts'
import { newestVersion } from '../apps/newest-version.ts'
import { requireSecretName } from '../secrets/names.ts'
import { transact } from '../store/transaction.ts'
import type { Handlers } from './handler.ts'
import { findInstall } from '../installs/view.ts'

export const secretHandlers = {
  'secrets.put': async ({ context, params, body, caller }) => {
    const install = await findInstall(context.db, params.ref)
    return transact(context, async (tx) => {
      await tx.db.selectFrom('install').select('id').where('id', '=', install.id).forUpdate().execute()
      const { content: app } = await newestVersion(tx.db, install.app_id)
      requireSecretName(app, install.overrides, params.name)
      const last = await tx.db
        .selectFrom('install_secret')
        .select('version')
        .where('install_id', '=', install.id)
        .where('name', '=', params.name)
        .orderBy('version', 'desc')
        .limit(1)
        .executeTakeFirst()
      const version = (last?.version ?? 0) + 1
      // An older value that never arrived must not arrive after this one.
      await tx.db
        .deleteFrom('install_secret')
        .where('install_id', '=', install.id)
        .where('name', '=', params.name)
        .where('delivered_at', 'is', null)
        .execute()
      await tx.db
        .insertInto('install_secret')
        .values({
          install_id: install.id,
          name: params.name,
          version,
          ciphertext: Buffer.from(body.ciphertext, 'base64'),
          set_at: tx.at,
        })
        .execute()
      tx.audit(install.id, {
        actor: actorOf(caller),
        action: 'secret.set',
        subject: { type: 'secret', id: params.name },
        outcome: 'ok',
        manifestDigest: null,
        details: { version },
      })
      const agent = await tx.db
        .selectFrom('agent')
        .select('id')
        .where('install_id', '=', install.id)
        .where('status', '=', 'enrolled')
        .executeTakeFirst()
      if (agent) tx.nudge(`agent:${agent.id}`)
      return { name: params.name, version, delivered: false }
    })
  },
  'secrets.list': async ({ context, params }) => {
    const install = await findInstall(context.db, params.ref)
    const rows = await context.db
      .selectFrom('install_secret')
      .distinctOn('name')
      .select(['name', 'version', 'delivered_at', 'set_at', 'refusal'])
      .where('install_id', '=', install.id)
      .orderBy('name')
      .orderBy('version', 'desc')
      .execute()
    return {
      items: rows.map((row) => ({
        name: row.name,
        version: row.version,
        delivered: row.delivered_at !== null,
        problem: row.delivered_at === null ? row.refusal : null,
        setAt: row.set_at,
      })),
      next: null,
    }
  },
} satisfies Partial<Handlers>
