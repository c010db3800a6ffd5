import { SERVER_CHAIN, type AuditFact, type UserRole } from '@tenon/core'
import type { Selectable } from 'kysely'
import { isoNow, type Context } from '../context.ts'
import { hashSecret, randomSecret } from '../crypto.ts'
import { ApiFailure } from '../errors.ts'
import type { Database } from '../store/schema.ts'
import type { Tx } from '../store/transaction.ts'

export const TOKEN_PREFIX = 'tenon_'

export type Token = Selectable<Database['api_token']>

/** The secret exists only in this answer. */
export async function createToken(
  context: Pick<Context, 'now' | 'newId'>,
  tx: Tx,
  wanted: { name: string; role: UserRole; expiresInSeconds: number | null },
  actor: AuditFact['actor'],
): Promise<{ token: Token; secret: string }> {
  const secret = `${TOKEN_PREFIX}${randomSecret()}`
  const token = await tx.db
    .insertInto('api_token')
    .values({
      id: context.newId('token'),
      name: wanted.name,
      role: wanted.role,
      secret_hash: hashSecret(secret),
      created_at: tx.at,
      expires_at: wanted.expiresInSeconds === null ? null : isoNow(context, wanted.expiresInSeconds),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  auditToken(tx, 'token.created', token.id, actor, {
    name: wanted.name,
    role: wanted.role,
    expiresAt: token.expires_at,
  })
  return { token, secret }
}

/** Undefined: there is no such token. */
export async function revokeToken(tx: Tx, id: string, actor: AuditFact['actor']): Promise<Token | undefined> {
  await lockTenant(tx)
  if (await isLastOwner(tx, id))
    throw new ApiFailure(
      'wrong_state',
      'this is the last token of an owner: without it nobody could make another',
      {
        remedy:
          'Make another first: `tenon tokens create NAME --role owner`. An owner who has none left gets one on the ' +
          'server’s machine: `tenon server recover-owner`.',
      },
    )
  const token = await tx.db
    .updateTable('api_token')
    .set((eb) => ({ revoked_at: eb.fn.coalesce('revoked_at', eb.val(tx.at)) }))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
  if (token) auditToken(tx, 'token.revoked', id, actor, {})
  tx.nudge(`token:${id}`)
  return token
}

/** Two owners who revoke each other at once, and two first starts, come one after the other. */
export async function lockTenant(tx: Tx): Promise<void> {
  await tx.db.selectFrom('server_identity').select('server_id').forUpdate().execute()
}

async function isLastOwner(tx: Tx, id: string): Promise<boolean> {
  const living = await tx.db
    .selectFrom('api_token')
    .select('id')
    .where('role', '=', 'owner')
    .where('revoked_at', 'is', null)
    .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', tx.at)]))
    .limit(2)
    .execute()
  return living.length === 1 && living[0]!.id === id
}

function auditToken(
  tx: Tx,
  action: string,
  id: string,
  actor: AuditFact['actor'],
  details: AuditFact['details'],
): void {
  tx.audit(SERVER_CHAIN, {
    actor,
    action,
    subject: { type: 'token', id },
    outcome: 'ok',
    manifestDigest: null,
    details,
  })
}
