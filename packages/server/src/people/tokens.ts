import { SERVER_CHAIN, type AuditFact, type PrincipalKind, type UserRole } from '@tenon/core'
import type { Selectable } from 'kysely'
import { isoNow, type Context } from '../context.ts'
import { hashSecret, randomSecret, secretMatches } from '../crypto.ts'
import { ApiFailure } from '../errors.ts'
import type { Db } from '../store/database.ts'
import { lockTenant } from '../store/locks.ts'
import type { Database } from '../store/schema.ts'
import { anyOf } from '../store/statements.ts'
import type { Tx } from '../store/transaction.ts'
import type { Principal } from './actor.ts'

export const TOKEN_PREFIX = 'tenon_'

export type Token = Selectable<Database['api_token']> & {
  principal_kind: PrincipalKind
  principal_name: string
}

export interface WantedToken {
  name: string
  role: UserRole
  expiresInSeconds: number | null
  /** The id of who is to own it; without one a new principal of this name and kind. */
  principal?: string | undefined
  kind?: PrincipalKind
}

/** Tokens, each with whose it is. */
export function selectTokens(db: Db) {
  return db
    .selectFrom('api_token')
    .innerJoin('principal', 'principal.id', 'api_token.principal_id')
    .selectAll('api_token')
    .select(['principal.kind as principal_kind', 'principal.name as principal_name'])
}

/** The secret exists only in this answer. */
export async function createToken(
  context: Pick<Context, 'now' | 'newId'>,
  tx: Tx,
  wanted: WantedToken,
  actor: AuditFact['actor'],
): Promise<{ token: Token; secret: string }> {
  const principal = await principalOf(context, tx, wanted, actor)
  const secret = `${TOKEN_PREFIX}${randomSecret()}`
  const row = await tx.db
    .insertInto('api_token')
    .values({
      id: context.newId('token'),
      name: wanted.name,
      principal_id: principal.id,
      role: wanted.role,
      secret_hash: hashSecret(secret),
      created_at: tx.at,
      expires_at: wanted.expiresInSeconds === null ? null : isoNow(context, wanted.expiresInSeconds),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  tx.audit(SERVER_CHAIN, {
    action: 'token.created',
    subject: { type: 'token', id: row.id },
    ...factBy(actor, {
      name: wanted.name,
      role: wanted.role,
      expiresAt: row.expires_at,
      principal: principal.id,
    }),
  })
  return { token: { ...row, principal_kind: principal.kind, principal_name: principal.name }, secret }
}

async function principalOf(
  context: Pick<Context, 'newId'>,
  tx: Tx,
  { principal: id, name, kind = 'user' }: WantedToken,
  actor: AuditFact['actor'],
): Promise<Principal> {
  if (id !== undefined) {
    if (kind !== 'user')
      throw new ApiFailure('bad_request', `principal ${id} is what it is: only a new one is given a kind`, {
        remedy: 'Give `--for PRINCIPAL` or `--service`, not both.',
      })
    const known = await tx.db.selectFrom('principal').selectAll().where('id', '=', id).executeTakeFirst()
    if (known) return known
    throw new ApiFailure('not_found', `there is no principal ${id}`, {
      remedy: 'Each token names its own: `tenon tokens list`.',
    })
  }
  const made = { id: context.newId('principal'), kind, name }
  await tx.db
    .insertInto('principal')
    .values({ ...made, created_at: tx.at })
    .execute()
  tx.audit(SERVER_CHAIN, {
    action: 'principal.created',
    subject: { type: 'principal', id: made.id },
    ...factBy(actor, { kind, name }),
  })
  return made
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
  await tx.db
    .updateTable('api_token')
    .set((eb) => ({ revoked_at: eb.fn.coalesce('revoked_at', eb.val(tx.at)) }))
    .where('id', '=', id)
    .execute()
  const token = await selectTokens(tx.db).where('api_token.id', '=', id).executeTakeFirst()
  if (!token) return undefined
  tx.audit(SERVER_CHAIN, { action: 'token.revoked', subject: { type: 'token', id }, ...factBy(actor, {}) })
  tx.nudge(`token:${id}`)
  return token
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

const factBy = (actor: AuditFact['actor'], details: AuditFact['details']) => ({
  actor,
  outcome: 'ok' as const,
  manifestDigest: null,
  details,
})

/** Looked up by its hash, compared in constant time. */
export async function findToken(db: Db, secret: string): Promise<Token | undefined> {
  const token = await selectTokens(db)
    .where('api_token.secret_hash', '=', hashSecret(secret))
    .executeTakeFirst()
  return token && secretMatches(secret, token.secret_hash) ? token : undefined
}

const USED_EVERY_MS = 60_000

export async function noteUse(context: Context, token: Token): Promise<void> {
  const { id, last_used_at: before } = token
  if (before !== null && context.now() - Date.parse(before) <= USED_EVERY_MS) return
  await context.db
    .updateTable('api_token')
    .set({ last_used_at: isoNow(context) })
    .where('id', '=', id)
    .execute()
}

export function tokensOf(db: Db, ids: readonly string[]): Promise<Token[]> {
  return selectTokens(db).where('api_token.id', '=', anyOf(ids)).execute()
}

/** Newest first. */
export function listTokens(
  db: Db,
  { after, limit }: { after?: string | undefined; limit: number },
): Promise<Token[]> {
  return selectTokens(db)
    .$if(after !== undefined, (q) => q.where('api_token.id', '<', after!))
    .orderBy('api_token.id', 'desc')
    .limit(limit)
    .execute()
}
