import { notFound } from '../errors.ts'
import { actorOf } from '../people/actor.ts'
import { createToken, revokeToken, type Token, listTokens } from '../people/tokens.ts'
import { transact } from '../store/transaction.ts'
import { pageOf, type Handlers } from './handler.ts'

export const tokenHandlers = {
  'tokens.list': async ({ context, query }) => {
    const rows = await listTokens(context.db, { after: query.after, limit: query.limit + 1 })
    return pageOf(rows, query.limit, tokenView)
  },
  'tokens.create': async ({ context, body, caller }) => {
    const made = await transact(context, (tx) => createToken(context, tx, body, actorOf(caller)))
    return { token: tokenView(made.token), secret: made.secret }
  },
  'tokens.revoke': async ({ context, params, caller }) => {
    const token = await transact(context, (tx) => revokeToken(tx, params.id, actorOf(caller)))
    if (!token) throw notFound('token', params.id)
    return tokenView(token)
  },
} satisfies Partial<Handlers>

function tokenView(row: Token) {
  return {
    id: row.id,
    name: row.name,
    principal: { kind: row.principal_kind, id: row.principal_id, name: row.principal_name },
    role: row.role,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    lastUsedAt: row.last_used_at,
  }
}
