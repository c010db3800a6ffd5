import { signDocument } from '@tenon/core'
import type { ProveRequest, ProveResponse, ServerProof } from '@tenon/protocol'
import { OLD_TOKEN } from '../agents/enrol.ts'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'

/** Proves to a new agent that this server made its join token. Anybody may ask, so nothing is written. */
export async function proveServer(
  context: Context,
  { tokenId, nonce }: ProveRequest,
): Promise<ProveResponse> {
  const token = await context.db
    .selectFrom('join_token')
    .select('public_key')
    .where('id', '=', tokenId)
    .executeTakeFirst()
  if (token?.public_key === null)
    throw new ApiFailure(OLD_TOKEN.code, OLD_TOKEN.message, { remedy: OLD_TOKEN.remedy })
  if (!token)
    throw new ApiFailure('unauthorized', 'this join token is not one of this server', {
      remedy: 'Ask for a new join token.',
    })
  const { keyId, key } = context.keys.current()
  const proof: ServerProof = {
    purpose: 'enrol',
    tokenId,
    tokenKey: token.public_key,
    nonce,
    serverId: context.serverId,
  }
  return { proof: signDocument('server-proof/1', proof, keyId, key.sign), keys: context.keys.links() }
}
