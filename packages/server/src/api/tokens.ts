import { SERVER_CHAIN } from '@tenon/core'
import type { Selectable } from 'kysely'
import { isoNow, type Context } from '../context.ts'
import { hashSecret, randomSecret } from '../crypto.ts'
import { actorOf } from '../operations/actor.ts'
import type { Database } from '../store/schema.ts'
import { transact, type Tx } from '../store/transaction.ts'
import type { UserRole, AuditFact } from '@tenon/core'
import { TOKEN_PREFIX } from './auth.ts'
import { notFound, pageOf, type Handlers } from './handler.ts'

export const tokenHandlers = {
  'tokens.list': async ({ context, query }) => {
    const rows = await context.db
      .selectFrom('api_token')
      .selectAll()
      .$if(query.after !== undefined, (q) => q.where('id', '<', query.after!))
      .orderBy('id', 'desc')
      .limit(query.limit + 1)
      .execute()
    return pageOf(rows, query.limit, tokenView)
  },
  'tokens.create': async ({ context, body, caller }) =>
    transact(context, (tx) => createToken(context, tx, body, actorOf(caller))),
  'tokens.revoke': async ({ context, params, caller }) =>
    transact(context, async (tx) => {
      const row = await tx.db
        .updateTable('api_token')
        .set((eb) => ({ revoked_at: eb.fn.coalesce('revoked_at', eb.val(tx.at)) }))
        .where('id', '=', params.id)
        .returningAll()
        .executeTakeFirst()
      if (!row) throw notFound('token', params.id)
      auditToken(tx, 'token.revoked', row.id, actorOf(caller), {})
      return tokenView(row)
    }),
} satisfies Partial<Handlers>

/** The secret exists only in this answer. */
export async function createToken(
  context: Context,
  tx: Tx,
  wanted: { name: string; role: UserRole; expiresInSeconds: number | null },
  actor: AuditFact['actor'],
) {
  const secret = `${TOKEN_PREFIX}${randomSecret()}`
  const row = await tx.db
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
  auditToken(tx, 'token.created', row.id, actor, {
    name: wanted.name,
    role: wanted.role,
    expiresAt: row.expires_at,
  })
  return { token: tokenView(row), secret }
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

function tokenView(row: Selectable<Database['api_token']>) {
  return {
    id: row.id,
    name: row.name,
    role: row.role,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    lastUsedAt: row.last_used_at,
  }
}
