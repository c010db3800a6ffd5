import { signingBytes, type Sign, type Verify } from './canonical.ts'
import { MAX_MANIFEST_LIFE_SECONDS } from './manifest.ts'

/** A server key, and the signature by which the key before it vouches for it. The first has none: it is pinned at enrolment. */
export interface KeyLink {
  keyId: string
  publicKey: string
  signedBy: string | null
  signature: string | null
  /** This key's own word on when the key before it ended. Older servers say nothing of it. */
  previousEnd?: { at: string; signature: string } | undefined
}

/** What is believed of a server's keys. */
export interface KnownKeys {
  pinned: ReadonlyMap<string, string>
  /** When each ended, by key id: kept after the key is dropped, so that nobody brings it back. */
  ended: ReadonlyMap<string, string>
}

/** How long what an ended key signed may still be on its way: no manifest lives longer. */
const KEY_GRACE_MS = MAX_MANIFEST_LIFE_SECONDS * 1000

export function keyStatement(link: { keyId: string; publicKey: string }): Uint8Array {
  return signingBytes('server-key/1', { keyId: link.keyId, publicKey: link.publicKey })
}

/** By the key that follows `keyId`: from `at` on it signs in its place. */
export function signKeyEnd(end: { keyId: string; by: string; at: string }, sign: Sign) {
  return { at: end.at, signature: sign(endStatement(end)) }
}

function endStatement({ keyId, by, at }: { keyId: string; by: string; at: string }): Uint8Array {
  return signingBytes('server-key-end/1', { keyId, by, at })
}

/**
 * The pinned keys plus every offered key that a chain of signatures ties to one of them. Others are left out, and what keys
 * vouch for that are known to have ended.
 */
export function extendPinnedKeys(
  pinned: ReadonlyMap<string, string>,
  offered: readonly KeyLink[],
  verify: Verify,
  ended: ReadonlyMap<string, string> = new Map(),
): Map<string, string> {
  return extend({ pinned, ended }, offered, verify)
}

/** Pure: what is believed after an offer. A key that has ended vouches for nobody new and is dropped after its grace. */
export function learnKeys(
  known: KnownKeys,
  offered: readonly KeyLink[],
  verify: Verify,
  nowMs: number,
): KnownKeys {
  const pinned = extend(known, offered, verify)
  const ended = new Map(known.ended)
  for (const link of offered) {
    const { signedBy } = link
    const at = endOfPrevious(link, pinned, verify)
    // The first word counts, and none is about the future: a server whose clock runs ahead ended it all the same.
    if (signedBy === null || at === undefined || ended.has(signedBy)) continue
    ended.set(signedBy, new Date(Math.min(Date.parse(at), nowMs)).toISOString())
  }
  return { pinned: usableKeys({ pinned, ended }, nowMs), ended }
}

/** Pure: the keys whose word counts at this moment. The current one never ends, whatever the clock says. */
export function usableKeys({ pinned, ended }: KnownKeys, nowMs: number): Map<string, string> {
  return new Map(
    [...pinned].filter(([keyId]) => {
      const at = ended.get(keyId)
      return at === undefined || nowMs <= Date.parse(at) + KEY_GRACE_MS
    }),
  )
}

function extend({ pinned, ended }: KnownKeys, offered: readonly KeyLink[], verify: Verify) {
  const trusted = new Map(pinned)
  for (let grew = true; grew;) {
    grew = false
    for (const link of offered) {
      if (trusted.has(link.keyId) || ended.has(link.keyId) || ended.has(link.signedBy ?? '')) continue
      if (!isVouchedFor(link, trusted, verify)) continue
      trusted.set(link.keyId, link.publicKey)
      grew = true
    }
  }
  return trusted
}

function isVouchedFor(link: KeyLink, trusted: ReadonlyMap<string, string>, verify: Verify): boolean {
  const voucher = link.signedBy === null ? undefined : trusted.get(link.signedBy)
  return voucher !== undefined && !!link.signature && verify(voucher, keyStatement(link), link.signature)
}

/** Only of a key that the one before it vouched for: an ended key cannot end the one that follows it. */
function endOfPrevious(
  link: KeyLink,
  trusted: ReadonlyMap<string, string>,
  verify: Verify,
): string | undefined {
  const { keyId, publicKey, signedBy, previousEnd } = link
  if (signedBy === null || !previousEnd || Number.isNaN(Date.parse(previousEnd.at))) return undefined
  if (trusted.get(keyId) !== publicKey || !isVouchedFor(link, trusted, verify)) return undefined
  const statement = endStatement({ keyId: signedBy, by: keyId, at: previousEnd.at })
  return verify(publicKey, statement, previousEnd.signature) ? previousEnd.at : undefined
}
