import type { Json } from '@tenon/core'
import { sql } from 'kysely'
import { newestVersion } from '../apps/newest-version.ts'
import type { Context } from '../context.ts'
import { actorOf, type Caller } from '../people/actor.ts'
import { lockInstall } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { requireSecretName } from './names.ts'

interface Install {
  id: string
  app_id: string
  overrides: { [component: string]: { [key: string]: Json } }
}

/** Keeps a sealed value until the install's agent has it. */
export async function putSecret(
  context: Context,
  install: Install,
  { name, ciphertext }: { name: string; ciphertext: Buffer },
  caller: Caller,
) {
  return transact(context, async (tx) => {
    const [, { content: app }, last, agent] = await Promise.all([
      lockInstall(tx, install.id),
      newestVersion(tx.db, install.app_id),
      lastVersion(tx, install.id, name),
      agentOf(tx, install.id),
    ])
    requireSecretName(app, install.overrides, name)
    const version = (last?.version ?? 0) + 1
    // An older value that never arrived must not arrive after this one.
    tx.write(sql`
      delete from install_secret where install_id = ${install.id} and name = ${name} and delivered_at is null`)
    const row = { install_id: install.id, name, version, ciphertext, set_at: tx.at }
    tx.write(tx.db.insertInto('install_secret').values(row))
    tx.audit(install.id, {
      actor: actorOf(caller),
      action: 'secret.set',
      subject: { type: 'secret', id: name },
      outcome: 'ok',
      manifestDigest: null,
      details: { version },
    })
    if (agent) tx.nudge(`agent:${agent.id}`)
    return { name, version, delivered: false }
  })
}

function lastVersion(tx: Tx, installId: string, name: string) {
  return tx.db
    .selectFrom('install_secret')
    .select('version')
    .where('install_id', '=', installId)
    .where('name', '=', name)
    .orderBy('version', 'desc')
    .limit(1)
    .executeTakeFirst()
}

function agentOf(tx: Tx, installId: string) {
  return tx.db
    .selectFrom('agent')
    .select('id')
    .where('install_id', '=', installId)
    .where('status', '=', 'enrolled')
    .executeTakeFirst()
}
