import { isSignedBy, learnKeys, parseDocument, type KnownKeys } from '@tenon/core'
import {
  serverChallenge,
  WIRE_RANGE,
  type AgentHello,
  type ServerChallenge,
  type ServerFrame,
} from '@tenon/protocol'
import { verify } from '../ground/crypto.ts'

/** What an agent says of itself; the rest of its hello is of the connection. */
export type HelloContent = Omit<
  AgentHello,
  'agentId' | 'serverId' | 'agentNonce' | 'nonce' | 'wire' | 'speaks' | 'bootCounter' | 'bootId'
>

export interface ChallengeCheck {
  challenge: Extract<ServerFrame, { type: 'challenge' }>
  agentId: string
  serverId: string
  agentNonce: string
  known: KnownKeys
  nowMs: number
}

export type ChallengeVerdict = { ok: true; challenge: ServerChallenge } | { ok: false; message: string }

/** Pure: by the pinned keys and those they vouch for. A challenge that does not verify is never answered. */
export function checkChallenge(check: ChallengeCheck): ChallengeVerdict {
  const { agentId, serverId, agentNonce, known, nowMs } = check
  const { challenge: signed, keys: offered } = check.challenge
  const { pinned, ended } = learnKeys(known, offered, verify, nowMs)
  const key = pinned.get(signed.keyId)
  if (!key && ended.has(signed.keyId))
    return no(`its key ${signed.keyId} ended at ${ended.get(signed.keyId)}`)
  if (!key) return no(`no pinned key vouches for key ${signed.keyId}`)
  if (!isSignedBy('server-challenge/2', signed, key, verify)) return no('its signature does not hold')
  const challenge = serverChallenge.safeParse(parseDocument(signed.text)).data
  if (!challenge) return no('it does not have the form of a challenge')
  if (challenge.serverId !== serverId)
    return no(`it comes from server ${challenge.serverId}, this agent belongs to ${serverId}`)
  if (challenge.agentId !== agentId || challenge.agentNonce !== agentNonce)
    return no('it answers another agent, or another call of this one')
  const { wire } = challenge
  if (wire < WIRE_RANGE.min || wire > WIRE_RANGE.max)
    return no(`the server chose version 0.${wire}, which this agent does not speak`)
  return { ok: true, challenge }
}

function no(message: string): { ok: false; message: string } {
  return { ok: false, message }
}
