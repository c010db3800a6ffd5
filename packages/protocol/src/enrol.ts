import { AGENT_ROLES, type Sha256 } from '@tenon/core'
import { z } from 'zod'
import { id, openValue, text, timestamp } from './scalars.ts'

export const keyLink = z.object({
  keyId: id,
  publicKey: z.base64(),
  signedBy: id.nullable(),
  signature: z.base64().nullable(),
  /** By this key: when the one before it ended, which agents drop after a grace. */
  previousEnd: z.object({ at: timestamp, signature: z.base64() }).optional(),
})

/** Signed over `text`; what a reader does not know in it is left out. */
export const signedText = z.object({
  text: z.string().max(20_000),
  keyId: id.optional(),
  signature: z.base64().max(200),
})

/** Before an agent enrols it has the server prove the key whose fingerprint the token carries, and that it made the token. */
export const proveRequest = z.object({ tokenId: z.string().max(64), nonce: z.base64().max(64) })
export type ProveRequest = z.infer<typeof proveRequest>
export const proveResponse = z.object({
  /** `serverProof`, by the key `keyId` of the server, in the context `server-proof/1`. */
  proof: signedText,
  keys: z.array(keyLink),
})
export type ProveResponse = z.infer<typeof proveResponse>

export const serverProof = z.object({
  purpose: z.literal('enrol'),
  tokenId: z.string(),
  /** Of the key pair that the token's secret makes: only who knows the secret or made the token can name it. */
  tokenKey: z.string(),
  nonce: z.string(),
  serverId: z.string(),
})
export type ServerProof = z.infer<typeof serverProof>

export const enrolRequest = z.object({
  /** `enrolment`, by the key being enrolled, in the context `agent-enrol/1`. */
  enrolment: signedText,
  /** Over the same text, by the key that the token's secret makes, in the context `join-token/1`. */
  tokenSignature: z.base64().max(200),
})
export type EnrolRequest = z.infer<typeof enrolRequest>

export const enrolment = z.object({
  tokenId: z.string().max(64),
  nonce: z.base64().max(64),
  publicKey: z.base64().max(200),
  recipient: text(200).nullable(),
  version: text(50),
  hostname: text(255),
})
export type Enrolment = z.infer<typeof enrolment>

export const enrolResponse = z.object({
  /** `enrolled`, by the key `keyId` of the server, in the context `server-enrolled/1`. */
  enrolled: signedText,
  keys: z.array(keyLink),
})
export type EnrolResponse = z.infer<typeof enrolResponse>

export const enrolled = z.object({
  agentId: id,
  serverId: z.string(),
  role: openValue(AGENT_ROLES),
  installId: id.nullable(),
  /** Whose enrolment this answers. */
  publicKey: z.string(),
  nonce: z.string(),
  at: timestamp,
})
export type Enrolled = z.infer<typeof enrolled>

/** A new key of an agent, signed by the one before it and by itself. Asked again until the answer came. */
export const rotateKeyRequest = z.object({
  /** As `signKeyChange` of core makes it. */
  change: signedText,
  /** The agent's recipient, signed by the new key; null where it published none. */
  recipientSignature: z.base64().max(200).nullable(),
})
export type RotateKeyRequest = z.infer<typeof rotateKeyRequest>
export const rotateKeyResponse = z.object({
  /** `keyAccepted`, by the key `keyId` of the server, in the context `agent-key-accepted/1`. */
  accepted: signedText,
  keys: z.array(keyLink),
})
export type RotateKeyResponse = z.infer<typeof rotateKeyResponse>

export const keyAccepted = z.object({ agentId: id, serverId: z.string(), publicKey: z.string() })
export type KeyAccepted = z.infer<typeof keyAccepted>

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

/** The seed (hex) of the token's own Ed25519 key pair. The server keeps the public half, which enrols nobody. */
export function joinTokenSeed(secret: string, sha256: Sha256): string {
  return sha256(new TextEncoder().encode(`tenon/join-token-key/1\n${secret}`))
}
