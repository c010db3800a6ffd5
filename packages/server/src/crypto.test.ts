import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { generateSigningKey, isEd25519PublicKey, verify, verifyApart } from './crypto.ts'

const bytes = Buffer.from('what was signed')
const key = generateSigningKey()
const signature = key.sign(bytes)
const spki = (publicKey: KeyObject) => publicKey.export({ format: 'der', type: 'spki' })
const own = Buffer.from(key.publicKey, 'base64')

describe.each([
  ['here', verify],
  ['on another thread', verifyApart],
])('signatures, verified %s', (_where, check) => {
  test('of the key itself are valid', async () => {
    expect(isEd25519PublicKey(key.publicKey)).toBe(true)
    expect(await check(key.publicKey, bytes, signature)).toBe(true)
  })

  test('of another key, of other bytes or cut short are not', async () => {
    expect(await check(generateSigningKey().publicKey, bytes, signature)).toBe(false)
    expect(await check(key.publicKey, Buffer.from('something else'), signature)).toBe(false)
    expect(await check(key.publicKey, bytes, signature.slice(0, 40))).toBe(false)
    expect(await check(key.publicKey, bytes, '')).toBe(false)
  })

  test.each([
    ['nothing', Buffer.alloc(0)],
    ['only the 32 bytes', own.subarray(12)],
    ['a byte short', own.subarray(0, -1)],
    ['a byte too long', Buffer.concat([own, Buffer.alloc(1)])],
    ['X25519', spki(generateKeyPairSync('x25519').publicKey)],
    ['Ed448', spki(generateKeyPairSync('ed448').publicKey)],
    ['P-256', spki(generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey)],
    ['RSA', spki(generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey)],
  ])('need an Ed25519 key, not %s', async (_what, publicKey) => {
    expect(isEd25519PublicKey(publicKey.toString('base64'))).toBe(false)
    expect(await check(publicKey.toString('base64'), bytes, signature)).toBe(false)
  })
})
