import { SERVER_CHAIN, type AuditFact } from '@tenon/core'
import type { Context } from '../context.ts'
import { lockTenant } from '../store/locks.ts'
import { transact } from '../store/transaction.ts'
import { newKeyRow } from './key-ring.ts'

/** The newest key signs from now on; the one before vouches for it, and ends. */
export async function rotateKey(context: Context, actor: AuditFact['actor']): Promise<void> {
  await transact(context, async (tx) => {
    await lockTenant(tx)
    await context.keys.reload()
    const row = newKeyRow(context.config.masterKey, context.now(), context.keys.current())
    tx.write(tx.db.insertInto('server_key').values(row))
    tx.audit(SERVER_CHAIN, {
      actor,
      action: 'key.rotated',
      subject: { type: 'key', id: row.id },
      outcome: 'ok',
      manifestDigest: null,
      details: { signedBy: row.signed_by, publicKey: row.public_key },
    })
    tx.nudge('keys')
  })
  await context.keys.reload()
}
