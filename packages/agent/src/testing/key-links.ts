import { keyStatement, signKeyEnd, type KeyLink } from '@tenon/core'
import type { SigningKey } from '../ground/crypto.ts'

/** Of a key that follows another; an older server does not say when that one ended. */
export function linkAfter(
  before: { link: KeyLink; key: SigningKey },
  { keyId, publicKey, key }: { keyId: string; publicKey: string; key: SigningKey },
  saysEnd: boolean,
): KeyLink {
  const signature = before.key.sign(keyStatement({ keyId, publicKey }))
  const link = { keyId, publicKey, signedBy: before.link.keyId, signature }
  const end = { keyId: before.link.keyId, by: keyId, at: new Date().toISOString() }
  return saysEnd ? { ...link, previousEnd: signKeyEnd(end, key.sign) } : link
}
