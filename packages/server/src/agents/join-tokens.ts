import type { AgentRole, AuditFact } from '@tenon/core'
import { formatJoinToken } from '@tenon/protocol'
import { chainOf } from '../audit/chains.ts'
import { isoNow, type Context } from '../context.ts'
import { fingerprint, hashSecret, joinTokenKey, randomSecret } from '../crypto.ts'
import { type Caller, actorOf } from '../people/actor.ts'
import { type Tx, transact } from '../store/transaction.ts'
import { newestAgent } from './take-over.ts'

/** Stored as the public half of a key, good once, and for a while; it carries the fingerprint of the key that the agent must find. */
export async function createJoinToken(
  context: Context,
  tx: Tx,
  wanted: {
    role: AgentRole
    installId: string | null
    expiresInSeconds: number
    /** Without it the token lets an agent in only where none was before. */
    mayReplace?: true
  },
  actor: AuditFact['actor'],
): Promise<{ joinToken: string; expiresAt: string; replaces: string | null }> {
  const id = context.newId('joinToken')
  const secret = randomSecret()
  const inPlace = wanted.installId && wanted.mayReplace ? await newestAgent(tx, wanted.installId) : undefined
  const replaces = inPlace?.id ?? null
  const expiresAt = isoNow(context, wanted.expiresInSeconds)
  await tx.db
    .insertInto('join_token')
    .values({
      id,
      secret_hash: hashSecret(secret),
      public_key: joinTokenKey(secret).publicKey,
      replaces,
      role: wanted.role,
      install_id: wanted.installId,
      created_by: actor.id,
      created_at: tx.at,
      expires_at: expiresAt,
    })
    .execute()
  tx.audit(chainOf(wanted.installId), {
    actor,
    action: 'join_token.created',
    subject: { type: 'join_token', id },
    outcome: 'ok',
    manifestDigest: null,
    details: { role: wanted.role, expiresAt, replaces },
  })
  const joinToken = formatJoinToken({
    id,
    secret,
    fingerprint: fingerprint(context.keys.current().key.publicKey),
  })
  return { joinToken, expiresAt, replaces }
}

const INSTALL_TOKEN_SECONDS = 3600

/** For the agent of an install, also one that takes the place of another. */
export async function createInstallToken(
  context: Context,
  install: { id: string },
  caller: Caller,
  elevate: () => void,
) {
  return transact(context, async (tx) => {
    const made = await createJoinToken(
      context,
      tx,
      { role: 'install', installId: install.id, expiresInSeconds: INSTALL_TOKEN_SECONDS, mayReplace: true },
      actorOf(caller),
    )
    if (made.replaces) elevate()
    return made
  })
}
