import { createPublicKey, verify as verifyWith } from 'node:crypto'
import type { Verify } from '@tenon/core'

/** Public keys are base64 of DER SPKI. False for anything that is not a valid Ed25519 signature; never throws. */
export const verify: Verify = (publicKey, bytes, signature) => {
  try {
    const key = createPublicKey({ key: Buffer.from(publicKey, 'base64'), format: 'der', type: 'spki' })
    return (
      key.asymmetricKeyType === 'ed25519' && verifyWith(null, bytes, key, Buffer.from(signature, 'base64'))
    )
  } catch {
    return false
  }
}
