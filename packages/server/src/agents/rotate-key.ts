import { readKeyChange, signDocument, signingBytes, type AgentKeyChange } from '@tenon/core'
import type { KeyAccepted, RotateKeyRequest, RotateKeyResponse } from '@tenon/protocol'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { fingerprint, isEd25519PublicKey, verify } from '../crypto.ts'
import { ApiFailure } from '../errors.ts'
import { lockAgents } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { agentKeysOf } from './keys.ts'

/** Takes an agent's new key in the place of the one that signed for it; what was taken before is answered again. */
export async function rotateAgentKey(
  context: Context,
  request: RotateKeyRequest,
): Promise<RotateKeyResponse> {
  const change = readKeyChange(request.change, verify)
  if (!change || !isEd25519PublicKey(change.publicKey))
    throw new ApiFailure('bad_request', 'this change of keys is not signed by both keys', { remedy: ASK })
  await transact(context, (tx) => rotate(tx, change, request))
  const { keyId, key } = context.keys.current()
  const { agentId, publicKey } = change
  const accepted: KeyAccepted = { agentId, serverId: context.serverId, publicKey }
  return {
    accepted: signDocument('agent-key-accepted/1', accepted, keyId, key.sign),
    keys: context.keys.links(),
  }
}

async function rotate(tx: Tx, change: AgentKeyChange, request: RotateKeyRequest): Promise<void> {
  const { agentId, previous, publicKey } = change
  const [agent] = await lockAgents(tx, [agentId])
  if (agent?.status !== 'enrolled')
    throw new ApiFailure('unauthorized', 'this server has no such agent in its place', { remedy: ASK })
  if (agent.public_key === publicKey) return
  const hadBefore = (await agentKeysOf(tx.db, [agent])).get(agentId) ?? []
  const isUsed = hadBefore.includes(publicKey) || (await isTaken(tx, publicKey))
  if (agent.public_key !== previous || isUsed)
    throw new ApiFailure('conflict', `agent ${agentId} has another key than the one that signed this`, {
      remedy: ASK,
    })
  const recipientSignature = signatureOfRecipient(agent, change, request.recipientSignature)
  await tx.db
    .insertInto('agent_key')
    .values({
      agent_id: agentId,
      position: hadBefore.length,
      public_key: publicKey,
      text: request.change.text,
      signature: request.change.signature,
      created_at: tx.at,
    })
    .execute()
  await tx.db
    .updateTable('agent')
    .set({ public_key: publicKey, recipient_signature: recipientSignature })
    .where('id', '=', agentId)
    .execute()
  const signed = { text: request.change.text, signature: request.change.signature }
  tx.audit(chainOf(agent.install_id), {
    actor: { type: 'agent', id: agentId },
    action: 'agent.key_accepted',
    subject: { type: 'agent', id: agentId },
    outcome: 'ok',
    manifestDigest: null,
    details: { previous: fingerprint(previous), key: fingerprint(publicKey), change: signed },
  })
}

async function isTaken(tx: Tx, publicKey: string): Promise<boolean> {
  const key = tx.db.selectFrom('agent').select('id').where('public_key', '=', publicKey)
  const later = tx.db.selectFrom('agent_key').select('agent_id as id').where('public_key', '=', publicKey)
  return (await key.unionAll(later).executeTakeFirst()) !== undefined
}

/** Nobody can seal to a recipient that no key signed: without a signature that holds it is published with the next hello. */
function signatureOfRecipient(
  { recipient }: { recipient: string | null },
  { agentId, publicKey }: AgentKeyChange,
  signature: string | null,
): string | null {
  if (recipient === null || signature === null) return null
  const bytes = signingBytes('agent-recipient/1', { agentId, recipient })
  return verify(publicKey, bytes, signature) ? signature : null
}

const ASK = 'See with `tenon agent status` which key the agent has; if the folder is a copy, enrol it anew.'
