import { generateKeyPairSync, sign as signBytes, verify as verifyBytes } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Verify } from './canonical.ts'
import {
  extendPinnedKeys,
  keyStatement,
  learnKeys,
  signKeyEnd,
  usableKeys,
  type KeyLink,
} from './key-chain.ts'

const pairs = Array.from({ length: 6 }, (_, i) => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  return {
    keyId: `key_${i}`,
    publicKey: publicKey.export({ type: 'spki', format: 'pem' }) as string,
    privateKey,
  }
})
const verify: Verify = (key, bytes, signature) =>
  verifyBytes(null, bytes, key, Buffer.from(signature, 'base64'))

/** `honest`: the named key really signed it; otherwise the new key signed itself under that name. */
function link(i: number, by: number | null, honest = true): KeyLink {
  const { keyId, publicKey, privateKey } = pairs[i]!
  if (by === null) return { keyId, publicKey, signedBy: null, signature: null }
  const signer = honest ? pairs[by]!.privateKey : privateKey
  const signature = signBytes(null, keyStatement({ keyId, publicKey }), signer).toString('base64')
  return { keyId, publicKey, signedBy: pairs[by]!.keyId, signature }
}
const pinned = new Map([[pairs[0]!.keyId, pairs[0]!.publicKey]])

describe('extendPinnedKeys', () => {
  it('follows a chain of rotations, in whatever order it is offered', () => {
    const chain = [link(0, null), link(1, 0), link(2, 1), link(3, 2)]
    fc.assert(
      fc.property(fc.shuffledSubarray(chain, { minLength: 4 }), (offered) => {
        const trusted = extendPinnedKeys(pinned, offered, verify)
        expect([...trusted.keys()].toSorted()).toEqual(['key_0', 'key_1', 'key_2', 'key_3'])
      }),
    )
  })

  it('trusts exactly the keys that honest signatures tie to a pinned one', () => {
    const anyLink = fc.record({
      i: fc.integer({ min: 1, max: 5 }),
      by: fc.option(fc.nat(5)),
      honest: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(anyLink, { maxLength: 8 }), (offers) => {
        const reachable = new Set([0])
        for (let grew = true; grew;) {
          const before = reachable.size
          for (const { i, by, honest } of offers) {
            if (by !== null && honest && reachable.has(by)) reachable.add(i)
          }
          grew = reachable.size > before
        }
        const trusted = extendPinnedKeys(
          pinned,
          offers.map((o) => link(o.i, o.by, o.honest)),
          verify,
        )
        expect([...trusted.keys()].toSorted()).toEqual([...reachable].map((i) => `key_${i}`).toSorted())
        for (const [keyId, key] of trusted) expect(key).toBe(pairs.find((p) => p.keyId === keyId)!.publicKey)
      }),
      { numRuns: 60 },
    )
  })

  it('never replaces a pinned key, nor takes another key under a vouched name', () => {
    const imposter = { ...link(1, 0), publicKey: pairs[2]!.publicKey }
    expect([...extendPinnedKeys(pinned, [imposter], verify).keys()]).toEqual(['key_0'])
    const replaced = { ...link(2, 0), keyId: 'key_0' }
    expect(extendPinnedKeys(pinned, [replaced], verify)).toEqual(pinned)
    expect(extendPinnedKeys(new Map(), [link(0, null), link(1, 0)], verify).size).toBe(0)
  })
})

const AT = '2026-01-01T00:00:00.000Z'
const NOW = Date.parse(AT)
const HOUR = 3_600_000
const signWith = (i: number) => (bytes: Uint8Array) =>
  signBytes(null, bytes, pairs[i]!.privateKey).toString('base64')

/** `by` says, or `signer` in its name, that `ended` ended. */
function ending(by: number, ended: number, { signer = by, vouched = true, at = AT } = {}): KeyLink {
  const { keyId } = pairs[by]!
  const end = { keyId: pairs[ended]!.keyId, by: keyId, at }
  return { ...link(by, ended, vouched), previousEnd: signKeyEnd(end, signWith(signer)) }
}

describe('learnKeys', () => {
  const root = { pinned, ended: new Map<string, string>() }
  const names = (keys: ReadonlyMap<string, string>) => [...keys.keys()]

  it('ends each key by the word of the one that follows it, whatever was missed, and never the newest', () => {
    const chain = [link(0, null), ending(1, 0), ending(2, 1)]
    const known = learnKeys(root, chain, verify, NOW + HOUR)
    expect(names(known.pinned)).toEqual(['key_0', 'key_1', 'key_2'])
    expect([...known.ended]).toEqual([
      ['key_0', AT],
      ['key_1', AT],
    ])
    expect(names(usableKeys(known, NOW + 24 * HOUR))).toEqual(['key_0', 'key_1', 'key_2'])
    expect(names(usableKeys(known, NOW + 24 * HOUR + 1))).toEqual(['key_2'])
    expect(names(learnKeys(root, chain, verify, NOW + 1000 * HOUR).pinned)).toEqual(['key_2'])
  })

  it('drops a key for good: neither its link nor a clock that goes back brings it again', () => {
    const chain = [link(0, null), ending(1, 0), ending(2, 1)]
    const known = learnKeys(root, chain, verify, NOW + 25 * HOUR)
    expect(names(learnKeys(known, chain, verify, NOW).pinned)).toEqual(['key_2'])
  })

  it('takes no end from a key that was not vouched for, nor in the name of another, nor about the future', () => {
    const two = learnKeys(root, [link(1, 0)], verify, NOW)
    for (const forged of [
      ending(1, 0, { signer: 0 }),
      // What an old key that leaked could say of the one that follows it.
      { ...ending(0, 1, { vouched: false }), publicKey: pairs[0]!.publicKey },
      ending(2, 1, { vouched: false }),
      ending(1, 0, { at: 'tomorrow' }),
    ])
      expect(learnKeys(two, [forged], verify, NOW).ended.size).toBe(0)
    const ahead = learnKeys(two, [ending(1, 0, { at: '2030-01-01T00:00:00.000Z' })], verify, NOW)
    expect([...ahead.ended]).toEqual([['key_0', AT]])
  })

  it('lets an ended key vouch for nobody new', () => {
    const known = learnKeys(root, [ending(1, 0)], verify, NOW)
    expect(names(learnKeys(known, [link(2, 0), link(3, 2)], verify, NOW).pinned)).toEqual(['key_0', 'key_1'])
  })

  it('follows links of a server that says no ends', () => {
    const known = learnKeys(root, [link(0, null), link(1, 0), link(2, 1)], verify, NOW)
    expect(names(usableKeys(known, NOW + 1000 * HOUR))).toEqual(['key_0', 'key_1', 'key_2'])
  })
})
