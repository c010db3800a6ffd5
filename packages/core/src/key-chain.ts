import { signingBytes, type Verify } from './canonical.ts'

/** A server key, and the signature by which the key before it vouches for it. The first has none: it is pinned at enrolment. */
export interface KeyLink {
  keyId: string
  publicKey: string
  signedBy: string | null
  signature: string | null
}

export function keyStatement(link: { keyId: string; publicKey: string }): Uint8Array {
  return signingBytes('server-key/1', { keyId: link.keyId, publicKey: link.publicKey })
}

/** The pinned keys plus every offered key that a chain of signatures ties to one of them. Others are left out. */
export function extendPinnedKeys(
  pinned: ReadonlyMap<string, string>,
  offered: readonly KeyLink[],
  verify: Verify,
): Map<string, string> {
  const trusted = new Map(pinned)
  for (let grew = true; grew;) {
    grew = false
    for (const link of offered) {
      const voucher = link.signedBy === null ? undefined : trusted.get(link.signedBy)
      if (trusted.has(link.keyId) || !voucher || !link.signature) continue
      if (!verify(voucher, keyStatement(link), link.signature)) continue
      trusted.set(link.keyId, link.publicKey)
      grew = true
    }
  }
  return trusted
}
