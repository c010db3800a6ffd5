import { extendPinnedKeys, signingBytes, type Sign } from '@tenon/core'
import { WIRE_VERSION, type AgentFrame, type ServerFrame } from '@tenon/protocol'
import { verify } from '../crypto.ts'

export type Challenge = Extract<ServerFrame, { type: 'challenge' }>
export type Hello = Extract<AgentFrame, { type: 'hello' }>
export type HelloContent = Omit<Hello, 'type' | 'bootCounter' | 'bootId' | 'signature'>

export interface ChallengeCheck {
  challenge: Challenge
  agentId: string
  serverId: string
  agentNonce: string
  pinned: ReadonlyMap<string, string>
}

/** Pure: `keys` are the pinned ones and those they vouch for. A challenge that does not verify is never answered. */
export function checkChallenge(
  check: ChallengeCheck,
): { ok: true; keys: Map<string, string>; grew: boolean } | { ok: false; message: string } {
  const { challenge, agentId, serverId, agentNonce, pinned } = check
  if (challenge.wire !== WIRE_VERSION) {
    return {
      ok: false,
      message: `the server speaks wire version ${challenge.wire}, this agent ${WIRE_VERSION}`,
    }
  }
  if (challenge.serverId !== serverId) {
    return {
      ok: false,
      message: `it comes from server ${challenge.serverId}, this agent belongs to ${serverId}`,
    }
  }
  const keys = extendPinnedKeys(pinned, challenge.keys, verify)
  const key = keys.get(challenge.keyId)
  if (!key) return { ok: false, message: `no pinned key vouches for key ${challenge.keyId}` }
  const bytes = signingBytes('server-challenge/1', { agentId, agentNonce, nonce: challenge.nonce, serverId })
  if (!verify(key, bytes, challenge.signature)) return { ok: false, message: 'its signature does not hold' }
  return { ok: true, keys, grew: keys.size > pinned.size }
}

export function signHello(
  signer: { agentId: string; serverId: string; bootCounter: number; bootId: string; sign: Sign },
  nonces: { agentNonce: string; nonce: string },
): string {
  const { agentId, serverId, bootCounter, bootId } = signer
  return signer.sign(
    signingBytes('agent-hello/1', { agentId, ...nonces, bootCounter, bootId, serverId, wire: WIRE_VERSION }),
  )
}
