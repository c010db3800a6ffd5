import { generateKeyPairSync, sign as signBytes, verify as verifyBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { agentKeys, signKeyChange } from './agent-keys.ts'
import type { Verify } from './canonical.ts'

const verify: Verify = (key, bytes, signature) =>
  verifyBytes(null, bytes, key, Buffer.from(signature, 'base64'))
const keys = Array.from({ length: 4 }, () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  return {
    publicKey: publicKey.export({ type: 'spki', format: 'pem' }) as string,
    sign: (bytes: Uint8Array) => signBytes(null, bytes, privateKey).toString('base64'),
  }
})
const [first, second, third, stranger] = keys as [Key, Key, Key, Key]
type Key = (typeof keys)[number]
const names = (found: string[]) => found.map((key) => keys.findIndex(({ publicKey }) => publicKey === key))
const follow = (known: Key, changes: ReturnType<typeof signKeyChange>[], agentId = 'agt_1') =>
  names(agentKeys(agentId, known.publicKey, changes, verify))

describe('the keys of an agent', () => {
  const changes = [signKeyChange('agt_1', first, second), signKeyChange('agt_1', second, third)]

  it('are found from any of them, in whatever order the changes come', () => {
    for (const known of [first, second, third]) {
      expect(follow(known, changes)).toEqual([0, 1, 2])
      expect(follow(known, changes.toReversed())).toEqual([0, 1, 2])
    }
    expect(follow(first, [])).toEqual([0])
  })

  it('are none that the one before did not sign, or that did not sign itself', () => {
    const posing = { publicKey: first.publicKey, sign: stranger.sign }
    expect(follow(first, [signKeyChange('agt_1', posing, stranger)])).toEqual([0])
    const taken = { publicKey: third.publicKey, sign: stranger.sign }
    expect(follow(first, [signKeyChange('agt_1', first, taken)])).toEqual([0])
    expect(follow(stranger, changes)).toEqual([3])
  })

  it('are of one agent', () => {
    expect(follow(first, changes, 'agt_2')).toEqual([0])
  })

  it('end where they come round', () => {
    expect(follow(first, [...changes, signKeyChange('agt_1', third, first)])).toEqual([0, 1, 2, 0])
    expect(
      follow(first, [
        { text: 'no JSON', signature: '' },
        { text: 'null', signature: '' },
      ]),
    ).toEqual([0])
  })
})
