import { signingBytes, type AgentRole } from '@tenon/core'
import { parseJoinToken, type EnrolRequest, type EnrolResponse } from '@tenon/protocol'
import type { Context } from '../context.ts'
import { isEd25519PublicKey, secretMatches, verify } from '../crypto.ts'
import { ApiFailure } from '../errors.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { chainOf } from './audit-chains.ts'
import { poolOf } from './manifests.ts'

type Refusal = {
  code: 'unauthorized' | 'token_expired' | 'token_used' | 'bad_request' | 'conflict'
  message: string
  remedy: string
}

/** Trades a one-time join token for an identity. Refusals are audited too, so they are returned through the transaction, not thrown in it. */
export async function enrolAgent(context: Context, request: EnrolRequest): Promise<EnrolResponse> {
  const answer = await transact(context, (tx) => enrol(context, tx, request))
  if ('refusal' in answer)
    throw new ApiFailure(answer.refusal.code, answer.refusal.message, { remedy: answer.refusal.remedy })
  return answer
}

async function enrol(
  context: Context,
  tx: Tx,
  request: EnrolRequest,
): Promise<EnrolResponse | { refusal: Refusal }> {
  const { signature, ...signed } = request
  const parsed = parseJoinToken(request.joinToken)
  const token =
    parsed &&
    (await tx.db
      .selectFrom('join_token')
      .selectAll()
      .where('id', '=', parsed.id)
      .forUpdate()
      .executeTakeFirst())
  const refusal = refusalOf(context, parsed, token)
  if (refusal) return refuse(context, tx, parsed?.id ?? 'unknown', token?.install_id ?? null, refusal)
  if (
    !isEd25519PublicKey(request.publicKey) ||
    !verify(request.publicKey, signingBytes('agent-enrol/1', signed), signature)
  ) {
    return refuse(context, tx, parsed!.id, token!.install_id, {
      code: 'bad_request',
      message: 'the request is not signed by the key that it brings',
      remedy: 'Start the agent with an empty folder.',
    })
  }
  const { role, install_id: installId } = token!
  // Two tokens of one install may be used at once: one takes over after the other.
  if (installId)
    await tx.db.selectFrom('install').select('id').where('id', '=', installId).forUpdate().execute()
  const known = await tx.db
    .selectFrom('agent')
    .select('id')
    .where('public_key', '=', request.publicKey)
    .executeTakeFirst()
  if (known) {
    return refuse(context, tx, token!.id, installId, {
      code: 'conflict',
      message: `this key has enrolled before, as agent ${known.id}`,
      remedy: 'Start the agent with an empty folder.',
    })
  }
  return addAgent(context, tx, request, { id: token!.id, role, installId })
}

/** One live identity per install: whoever comes new takes over. */
async function addAgent(
  context: Context,
  tx: Tx,
  request: EnrolRequest,
  token: { id: string; role: AgentRole; installId: string | null },
): Promise<EnrolResponse> {
  const { role, installId } = token
  const id = context.newId('agent')
  const replaced = installId
    ? await tx.db
        .updateTable('agent')
        .set({ status: 'replaced' })
        .where('install_id', '=', installId)
        .where('status', '=', 'enrolled')
        .returning('id')
        .execute()
    : []
  await tx.db
    .insertInto('agent')
    .values({
      id,
      role,
      install_id: installId,
      pool: poolOf(role, installId),
      public_key: request.publicKey,
      recipient: request.recipient,
      status: 'enrolled',
      version: request.version,
      hostname: request.hostname,
      created_at: tx.at,
    })
    .execute()
  await tx.db
    .updateTable('join_token')
    .set({ used_at: tx.at, used_by: id })
    .where('id', '=', token.id)
    .execute()
  tx.audit(chainOf(installId), {
    actor: { type: 'agent', id },
    action: 'agent.enrolled',
    subject: { type: 'agent', id },
    outcome: 'ok',
    manifestDigest: null,
    details: {
      role,
      joinToken: token.id,
      publicKey: request.publicKey,
      hostname: request.hostname,
      replaces: replaced.map((a) => a.id),
    },
  })
  tx.nudge(...replaced.map((a) => `agent:${a.id}`))
  return { agentId: id, serverId: context.serverId, role, installId, keys: context.keys.links(), at: tx.at }
}

function refusalOf(
  context: Context,
  parsed: ReturnType<typeof parseJoinToken>,
  token: { secret_hash: string; expires_at: string; used_at: string | null } | undefined,
): Refusal | undefined {
  const remedy = 'Ask for a new join token.'
  if (!parsed || !token || !secretMatches(parsed.secret, token.secret_hash))
    return { code: 'unauthorized', message: 'this join token is not one of this server', remedy }
  if (token.used_at)
    return { code: 'token_used', message: `this join token was used at ${token.used_at}`, remedy }
  if (Date.parse(token.expires_at) <= context.now())
    return { code: 'token_expired', message: `this join token expired at ${token.expires_at}`, remedy }
  return undefined
}

function refuse(
  context: Context,
  tx: Tx,
  tokenId: string,
  installId: string | null,
  refusal: Refusal,
): { refusal: Refusal } {
  tx.audit(chainOf(installId), {
    actor: { type: 'server', id: context.serverId },
    action: 'agent.enrol_refused',
    subject: { type: 'join_token', id: tokenId },
    outcome: 'refused',
    manifestDigest: null,
    details: { code: refusal.code, message: refusal.message },
  })
  return { refusal }
}
