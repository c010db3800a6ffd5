import type { Sha256, Verify } from '@tenon/core'
import { createHash, createPublicKey, verify as verifyBytes } from 'node:crypto'

/** Hex, as the audit chain and digests are written. */
export const sha256: Sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')

/** Ed25519 with a base64 DER key; a key or signature that cannot be read is a wrong one. */
export const verifyEd25519: Verify = (publicKey, bytes, signature) => {
  try {
    const key = createPublicKey({ key: Buffer.from(publicKey, 'base64'), format: 'der', type: 'spki' })
    if (key.asymmetricKeyType !== 'ed25519') return false
    return verifyBytes(null, bytes, key, Buffer.from(signature, 'base64'))
  } catch {
    return false
  }
}

/** What two people compare to know that they mean the same key. */
export function keyFingerprint(publicKey: string): string {
  return sha256(Buffer.from(publicKey, 'base64'))
}
