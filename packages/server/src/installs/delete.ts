import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { actorOf, type Caller } from '../people/actor.ts'
import { forgetComponents } from '../runs/components.ts'
import { lockInstall } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { freeName } from './free-name.ts'

/** Out of every list, with all that it was told; its audit, and the runs and agents that this speaks of, stay. */
export async function deleteInstall(
  context: Context,
  found: { id: string },
  caller: Caller,
): Promise<string> {
  return transact(context, async (tx) => {
    const install = (await lockInstall(tx, found.id))!
    const name = install.former_name ?? install.name
    if (install.deleted_at) throw new ApiFailure('not_found', `there is no install ${name}`)
    if (install.status !== 'deprovisioned')
      throw new ApiFailure('wrong_state', `install ${name} is ${install.status}, not deprovisioned`, {
        remedy: 'Remove what is there first: `tenon installs deprovision`.',
      })
    await requireNothingOpen(tx, install.id, name)
    await freeName(tx, install.name)
    forgetComponents(tx, install.id)
    for (const follower of context.followers.installs) follower.deleted?.(tx, install.id)
    tx.write(sql`update install set deleted_at = ${tx.at}, inputs = '{}', overrides = '{}', sandbox_config = '{}'
      where id = ${install.id}`)
    tx.audit(install.id, {
      actor: actorOf(caller),
      action: 'install.deleted',
      subject: { type: 'install', id: install.id },
      outcome: 'ok',
      manifestDigest: null,
      details: { name },
    })
    return name
  })
}

async function requireNothingOpen(tx: Tx, installId: string, name: string): Promise<void> {
  const open = await tx.db
    .selectFrom('run')
    .select('id')
    .where('install_id', '=', installId)
    .where('finished_at', 'is', null)
    .limit(1)
    .executeTakeFirst()
  if (!open) return
  throw new ApiFailure('wrong_state', `run ${open.id} of install ${name} has not ended`, {
    remedy: 'Cancel it first: `tenon runs cancel`.',
  })
}
