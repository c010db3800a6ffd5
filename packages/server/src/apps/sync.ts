import { type App, canonicalBytes, SERVER_CHAIN } from '@tenon/core'
import type { Context } from '../context.ts'
import { sha256 } from '../crypto.ts'
import { ApiFailure } from '../errors.ts'
import { type Caller, actorOf } from '../people/actor.ts'
import { lockApp } from '../store/locks.ts'
import { anyOf } from '../store/statements.ts'
import { transact } from '../store/transaction.ts'
import { requireSoundApp } from './sound.ts'

/** A version of its own when anything is different from the newest. */
export async function syncApp(context: Context, sent: App, caller: Caller) {
  const app = requireSoundApp(sent, context.now())
  const digest = `sha256:${sha256(canonicalBytes(app))}`
  return transact(context, async (tx) => {
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
    const row = await lockApp(tx, app.name)
    const last = await tx.db
      .selectFrom('app_version')
      .select(['number', 'digest'])
      .where('app_id', '=', row.id)
      .orderBy('number', 'desc')
      .limit(1)
      .executeTakeFirst()
    if (last?.digest === digest) return { name: app.name, changed: false }
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
    await context.followers.apps.synced(context, tx, { id: row.id, content: app })
    tx.audit(SERVER_CHAIN, {
      actor: actorOf(caller),
      action: 'app.synced',
      subject: { type: 'app', id: row.id },
      outcome: 'ok',
      manifestDigest: null,
      details: { name: app.name, version: number, digest },
    })
    return { name: app.name, changed: true }
  })
}
