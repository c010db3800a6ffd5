import { openSignedText, signDocument, type AgentRole } from '@tenon/core'
import {
  enrolment,
  type Enrolled,
  type Enrolment,
  type EnrolRequest,
  type EnrolResponse,
} from '@tenon/protocol'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { isEd25519PublicKey, verify } from '../crypto.ts'
import { ApiFailure } from '../errors.ts'
import { poolOf } from '../jobs/sign-manifest.ts'
import { lockJoinToken, lockInstall } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { newestAgent, refuseTakeOver } from './take-over.ts'

type Refusal = {
  code: 'unauthorized' | 'token_expired' | 'token_used' | 'bad_request' | 'conflict' | 'agent_in_place'
  message: string
  remedy: string
}

/** Trades a one-time join token for an identity. Refusals are audited or counted, so they are returned through the transaction, not thrown in it. */
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
  const asked = readEnrolment(request)
  const token = asked && (await lockJoinToken(tx, asked.tokenId))
  if (!asked || !token?.public_key || !knowsToken(request, token.public_key)) {
    const refusal = token && token.public_key === null ? OLD_TOKEN : UNKNOWN_TOKEN
    const about = { id: asked?.tokenId ?? 'unknown', install_id: token?.install_id ?? null }
    return refuse(context, tx, request, about, refusal)
  }
  const refused = (refusal: Refusal) => refuse(context, tx, request, token, refusal)
  if (!isSignedByItsKey(request, asked)) return refused(UNSIGNED)
  if (token.used_by) {
    const known = await tx.db
      .selectFrom('agent')
      .select(['id', 'public_key'])
      .where('id', '=', token.used_by)
      .executeTakeFirst()
    // The same key again: the answer was lost on its way, and the agent asks once more.
    if (known?.public_key === asked.publicKey) return answer(context, tx, known.id, token, asked)
    return refused({
      code: 'token_used',
      message: `this join token was used at ${token.used_at}`,
      remedy: ASK_AGAIN,
    })
  }
  if (Date.parse(token.expires_at) <= context.now()) {
    return refused({
      code: 'token_expired',
      message: `this join token expired at ${token.expires_at}`,
      remedy: ASK_AGAIN,
    })
  }
  // Two tokens of one install may be used at once: one takes over after the other.
  if (token.install_id) await lockInstall(tx, token.install_id)
  const known = await tx.db
    .selectFrom('agent')
    .select('id')
    .where('public_key', '=', asked.publicKey)
    .executeTakeFirst()
  if (known) {
    return refused({
      code: 'conflict',
      message: `this key has enrolled before, as agent ${known.id}`,
      remedy: 'Start the agent with an empty folder.',
    })
  }
  const inPlace = token.install_id ? await newestAgent(tx, token.install_id) : undefined
  const taken = refuseTakeOver(inPlace, token, context.now())
  if (taken) return refused(taken)
  return answer(context, tx, await addAgent(context, tx, asked, token), token, asked)
}

/** Read before any signature is checked: it says which keys to check with. */
function readEnrolment({ enrolment: { text } }: EnrolRequest): Enrolment | undefined {
  try {
    return enrolment.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

function knowsToken({ enrolment: { text }, tokenSignature }: EnrolRequest, tokenKey: string): boolean {
  return openSignedText('join-token/1', { text, signature: tokenSignature }, tokenKey, verify) !== undefined
}

function isSignedByItsKey(request: EnrolRequest, { publicKey }: Enrolment): boolean {
  return (
    isEd25519PublicKey(publicKey) &&
    openSignedText('agent-enrol/1', request.enrolment, publicKey, verify) !== undefined
  )
}

type Token = { id: string; role: AgentRole; install_id: string | null; replaces: string | null }

/** One live identity per install: whoever comes new, and may, takes over. */
async function addAgent(context: Context, tx: Tx, asked: Enrolment, token: Token): Promise<string> {
  const { role, install_id: installId } = token
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
      public_key: asked.publicKey,
      recipient: asked.recipient,
      status: 'enrolled',
      version: asked.version,
      hostname: asked.hostname,
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
      publicKey: asked.publicKey,
      hostname: asked.hostname,
      replaces: token.replaces ? [token.replaces] : [],
    },
  })
  tx.nudge(...replaced.map((a) => `agent:${a.id}`))
  return id
}

function answer(context: Context, tx: Tx, agentId: string, token: Token, asked: Enrolment): EnrolResponse {
  const { serverId, keys } = context
  const { keyId, key } = keys.current()
  const { publicKey, nonce } = asked
  const { role, install_id: installId } = token
  const given: Enrolled = { agentId, serverId, role, installId, publicKey, nonce, at: tx.at }
  return { enrolled: signDocument('server-enrolled/1', given, keyId, key.sign), keys: keys.links() }
}

const ASK_AGAIN = 'Ask for a new join token.'
const UNKNOWN_TOKEN: Refusal = {
  code: 'unauthorized',
  message: 'this join token is not one of this server',
  remedy: ASK_AGAIN,
}
/** It came of a server version that kept no key of it, so nobody can prove that he has it. */
export const OLD_TOKEN: Refusal = {
  code: 'unauthorized',
  message: 'this join token was made before the server was upgraded',
  remedy: ASK_AGAIN,
}
const UNSIGNED: Refusal = {
  code: 'bad_request',
  message: 'the request is not signed by the key that it brings',
  remedy: 'Start the agent with an empty folder.',
}

const ENROL_REFUSED = 'agent.enrol_refused'

function refuse(
  context: Context,
  tx: Tx,
  request: EnrolRequest,
  token: Pick<Token, 'id' | 'install_id'>,
  refusal: Refusal,
): { refusal: Refusal } {
  const chain = chainOf(token.install_id)
  if (!context.refusals.admit(request, chain, ENROL_REFUSED, refusal.code, context.now())) return { refusal }
  tx.audit(chain, {
    actor: { type: 'server', id: context.serverId },
    action: ENROL_REFUSED,
    subject: { type: 'join_token', id: token.id },
    outcome: 'refused',
    manifestDigest: null,
    details: { code: refusal.code, message: refusal.message },
  })
  return { refusal }
}
