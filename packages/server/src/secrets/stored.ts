import type { Context } from '../context.ts'
import { lockUndelivered } from '../store/locks.ts'
import { transact } from '../store/transaction.ts'

/** A value that was sent to an install's agent. */
interface Sent {
  agentId: string
  installId: string
  secretId: number
}

/** The install has it: from here on the server keeps nothing of it. */
export async function noteStored(context: Context, { agentId, installId, secretId }: Sent): Promise<void> {
  await transact(context, async (tx) => {
    const secret = await tx.db
      .updateTable('install_secret')
      .set({ delivered_at: tx.at, ciphertext: Buffer.alloc(0) })
      .where('id', '=', secretId)
      .where('install_id', '=', installId)
      .where('delivered_at', 'is', null)
      .returning(['name', 'version'])
      .executeTakeFirst()
    if (!secret) return
    tx.audit(installId, {
      actor: { type: 'agent', id: agentId },
      action: 'secret.delivered',
      subject: { type: 'secret', id: secret.name },
      outcome: 'ok',
      manifestDigest: null,
      details: { version: secret.version },
    })
  })
}

/** Kept, so that whoever set it can see why it does not arrive; told again only when the reason is another. */
export async function noteRefused(
  context: Context,
  { agentId, installId, secretId }: Sent,
  message: string,
): Promise<void> {
  context.log.warn({ installId, secretId, message }, 'an install could not store a secret')
  await transact(context, async (tx) => {
    const before = await lockUndelivered(tx, secretId, installId)
    if (!before) return
    tx.write(
      tx.db
        .updateTable('install_secret')
        .set({ refused_at: tx.at, refusal: message })
        .where('id', '=', secretId),
    )
    if (before.refusal === message) return
    tx.audit(installId, {
      actor: { type: 'agent', id: agentId },
      action: 'secret.refused',
      subject: { type: 'secret', id: before.name },
      outcome: 'failed',
      manifestDigest: null,
      details: { version: before.version, message },
    })
  })
}
