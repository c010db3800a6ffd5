import { AGENT_ROLES } from '@tenon/core'
import { z } from 'zod'
import { id, text, timestamp } from './scalars.ts'

export const keyLink = z.object({
  keyId: id,
  publicKey: z.base64(),
  signedBy: id.nullable(),
  signature: z.base64().nullable(),
})

/** Before an agent shows its join token it lets the server prove the key whose fingerprint the token carries. */
export const proveRequest = z.strictObject({ nonce: z.base64().max(64) })
export const proveResponse = z.object({
  serverId: z.string(),
  keyId: id,
  /** Over {agentId: "", agentNonce, nonce: "", serverId} in the context `server-challenge/1`. */
  signature: z.base64(),
  keys: z.array(keyLink),
})

export const enrolRequest = z.strictObject({
  joinToken: z.string().max(300),
  publicKey: z.base64().max(200),
  recipient: text(200).nullable(),
  version: text(50),
  hostname: text(255),
  /** Over the other fields, by the key being enrolled, in the context `agent-enrol/1`. */
  signature: z.base64().max(200),
})
export type EnrolRequest = z.infer<typeof enrolRequest>

export const enrolResponse = z.object({
  agentId: id,
  serverId: z.string(),
  role: z.enum(AGENT_ROLES),
  installId: id.nullable(),
  keys: z.array(keyLink),
  at: timestamp,
})
export type EnrolResponse = z.infer<typeof enrolResponse>

/** `tenonjoin.<id>.<secret>.<fingerprint>`: the fingerprint is the SHA-256 of the server's public key, so the first contact is already verified. */
export interface JoinToken {
  id: string
  secret: string
  fingerprint: string
}

export function formatJoinToken(token: JoinToken): string {
  return `tenonjoin.${token.id}.${token.secret}.${token.fingerprint}`
}

export function parseJoinToken(value: string): JoinToken | undefined {
  const match = /^tenonjoin\.(jtk_[0-9a-z]{26})\.([A-Za-z0-9_-]{43})\.([0-9a-f]{64})$/.exec(value.trim())
  return match ? { id: match[1]!, secret: match[2]!, fingerprint: match[3]! } : undefined
}
