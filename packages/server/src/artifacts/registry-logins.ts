import { SERVER_CHAIN, type ActionOn, type AuditFact } from '@tenon/core'
import { RegistryRefusal, type RepositoryGrant } from '@tenon/oci'
import { routes } from '@tenon/protocol'
import { isoNow, type Context } from '../context.ts'
import { hashSecret, randomSecret, secretMatches } from '../crypto.ts'
import { actorOf, type Caller } from '../people/actor.ts'
import { callerOf, mayCall } from '../people/authority.ts'
import { selectTokens } from '../people/tokens.ts'
import type { Db } from '../store/database.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { BEARER_SECONDS } from './registry-tokens.ts'

const PREFIX = 'tenon-login-'
const LOGIN_ID = /^rlg_[0-9a-z]{26}$/
/** How long one that is over is remembered, so that its use can be told from a guess. */
const REMEMBERED_SECONDS = 86_400
/** A tool trades its credential at each call: of one login that is written once in this time. */
const TOLD_EVERY_SECONDS = 60

/** What people may pull. Not the sources that were sent for builds, and nobody pushes: artifacts come from builds alone. */
const PULL: RepositoryGrant[] = [
  { name: 'apps/*', actions: ['pull'] },
  { name: 'tenon/plugins/*', actions: ['pull'] },
]

/** Never longer than the API token that it stands on; the password exists only in this answer. */
export async function createRegistryLogin(
  context: Context,
  caller: Caller,
  expiresInSeconds: number,
): Promise<{ username: string; password: string; expiresAt: string }> {
  const password = `${PREFIX}${randomSecret()}`
  const id = context.newId('registryLogin')
  return transact(context, async (tx) => {
    const token = await selectTokens(tx.db)
      .where('api_token.id', '=', caller.tokenId)
      .executeTakeFirstOrThrow()
    const wanted = isoNow(context, expiresInSeconds)
    const { expires_at: last } = token
    const expiresAt = last !== null && Date.parse(last) < Date.parse(wanted) ? last : wanted
    await tx.db
      .deleteFrom('registry_login')
      .where('expires_at', '<', isoNow(context, -REMEMBERED_SECONDS))
      .execute()
    await tx.db
      .insertInto('registry_login')
      .values({
        id,
        secret_hash: hashSecret(password),
        token_id: caller.tokenId,
        created_at: tx.at,
        expires_at: expiresAt,
      })
      .execute()
    audit(tx, 'registry.login_issued', id, actorOf(caller), { expiresAt })
    return { username: id, password, expiresAt }
  })
}

/** False: the caller's principal has no such login. One that has ended stays ended. */
export async function endRegistryLogin(context: Context, caller: Caller, id: string): Promise<boolean> {
  return transact(context, async (tx) => {
    const login = await readLogin(tx.db, id)
    if (login?.principal_id !== caller.principal.id) return false
    if (login.ended_at !== null) return true
    await tx.db.updateTable('registry_login').set({ ended_at: tx.at }).where('id', '=', id).execute()
    audit(tx, 'registry.login_ended', id, actorOf(caller), {})
    return true
  })
}

/** What the registry's token endpoint does with such a credential; undefined when it is none. */
export async function redeemRegistryLogin(
  context: Context,
  { username, password }: { username: string; password: string },
): Promise<{ bearer: string; expiresInSeconds: number } | undefined> {
  if (!password.startsWith(PREFIX)) return undefined
  const login = LOGIN_ID.test(username) ? await readLogin(context.db, username) : undefined
  if (!login || !secretMatches(password, login.login_hash)) return refuse(context, 'unknown')
  const caller = holderOf(login, context.now())
  if (typeof caller === 'string') return refuse(context, caller, login)
  await tellRedeemed(context, login, caller)
  const left = Math.floor((Date.parse(login.login_expires_at) - context.now()) / 1000)
  const expiresInSeconds = Math.max(1, Math.min(BEARER_SECONDS, left))
  const grant = { subject: login.login_id, repositories: PULL }
  return { bearer: context.registry.issueToken(grant, expiresInSeconds, context.now()), expiresInSeconds }
}

export const isLoginSubject = (subject: string): boolean => LOGIN_ID.test(subject)

/** Whether a bearer that was given for it may still be used: asked while the registry serves. */
export async function isLoginLive(context: Pick<Context, 'db' | 'now'>, id: string): Promise<boolean> {
  const login = await readLogin(context.db, id)
  return login !== undefined && typeof holderOf(login, context.now()) !== 'string'
}

/** A bearer of it was refused something: written as the word of whom it was given to. */
export async function auditLoginRefusal(
  context: Context,
  id: string,
  details: AuditFact['details'],
): Promise<void> {
  await transact(context, async (tx) => {
    const login = await readLogin(tx.db, id)
    const actor = login ? actorOfLogin(login) : { type: 'server' as const, id: context.serverId }
    audit(tx, 'registry.login_refused', id, actor, details, 'refused')
  })
}

type Login = NonNullable<Awaited<ReturnType<typeof readLogin>>>

async function readLogin(db: Db, id: string) {
  return selectTokens(db)
    .innerJoin('registry_login', 'registry_login.token_id', 'api_token.id')
    .select(['registry_login.id as login_id', 'registry_login.secret_hash as login_hash'])
    .select(['registry_login.expires_at as login_expires_at', 'ended_at', 'told_at'])
    .where('registry_login.id', '=', id)
    .executeTakeFirst()
}

type Refusal = 'unknown' | 'expired' | 'ended'

/** Pure: who holds it now, by the API token that it stands on; or why nobody does. */
function holderOf(login: Login, nowMs: number): Caller | Refusal {
  if (login.ended_at !== null) return 'ended'
  if (nowMs >= Date.parse(login.login_expires_at)) return 'expired'
  const caller = callerOf(login, nowMs)
  return 'refusal' in caller || !mayCall(caller, routes['registry.login']) ? 'ended' : caller
}

const actorOfLogin = (login: Login): AuditFact['actor'] => ({
  type: login.principal_kind,
  id: login.principal_id,
  token: login.id,
})

/** By the row itself, so that several processes write one entry between them. */
async function tellRedeemed(context: Context, login: Login, caller: Caller): Promise<void> {
  const { login_id: id, told_at: toldAt } = login
  const before = isoNow(context, -TOLD_EVERY_SECONDS)
  if (toldAt !== null && Date.parse(toldAt) >= Date.parse(before)) return
  await transact(context, async (tx) => {
    const due = await tx.db
      .updateTable('registry_login')
      .set({ told_at: tx.at })
      .where('id', '=', id)
      .where((eb) => eb.or([eb('told_at', 'is', null), eb('told_at', '<', before)]))
      .returning('id')
      .executeTakeFirst()
    if (due) audit(tx, 'registry.login_redeemed', id, actorOf(caller), {})
  })
}

const WHY: Record<Refusal, string> = {
  unknown: 'The credential is not one of this server; sign in with `tenon registry login`',
  expired: 'The credential has expired; sign in again with `tenon registry login`',
  ended: 'The credential has ended: it was given back, or its API token may no longer read artifacts',
}

/** Anybody can ask: each reason is written once a minute, the others are counted. */
async function refuse(context: Context, reason: Refusal, login?: Login): Promise<never> {
  if (context.refusals.admit({}, SERVER_CHAIN, 'registry.login_refused', reason, context.now()))
    await transact(context, async (tx) => {
      const actor = login ? actorOfLogin(login) : { type: 'server' as const, id: context.serverId }
      audit(tx, 'registry.login_refused', login?.login_id ?? '', actor, { reason }, 'refused')
    })
  throw new RegistryRefusal(401, 'UNAUTHORIZED', WHY[reason])
}

function audit(
  tx: Tx,
  action: ActionOn<'registry_login'>,
  id: string,
  actor: AuditFact['actor'],
  details: AuditFact['details'],
  outcome: AuditFact['outcome'] = 'ok',
): void {
  const subject = { type: 'registry_login' as const, id }
  tx.audit(SERVER_CHAIN, { actor, action, subject, outcome, manifestDigest: null, details })
}
