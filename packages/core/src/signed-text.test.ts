import { generateKeyPairSync, sign as signBytes, verify as verifyBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Verify } from './canonical.ts'
import { openSignedText, signText } from './signed-text.ts'

const { publicKey, privateKey } = generateKeyPairSync('ed25519')
const pem = publicKey.export({ type: 'spki', format: 'pem' }) as string
const sign = (bytes: Uint8Array) => signBytes(null, bytes, privateKey).toString('base64')
const verify: Verify = (key, bytes, signature) =>
  verifyBytes(null, bytes, key, Buffer.from(signature, 'base64'))

describe('a signed text', () => {
  const value = { b: 1, a: ['x'], later: { unknown: true } }
  const signed = signText('agent-enrol/1', value, sign)
  const open = (document = signed, context: 'agent-enrol/1' | 'agent-hello/2' = 'agent-enrol/1') =>
    openSignedText(context, document, pem, verify)

  it('opens to what was signed, fields that the reader does not know included', () => {
    expect(open()).toEqual(value)
    const spaced = { text: ' {"a" : 1} ', signature: sign(Buffer.from('tenon/agent-enrol/1\n {"a" : 1} ')) }
    expect(open(spaced)).toEqual({ a: 1 })
  })

  it('does not open when anything is another', () => {
    expect(open({ ...signed, text: signed.text.replace('x', 'y') })).toBeUndefined()
    expect(open({ ...signed, text: `${signed.text} ` })).toBeUndefined()
    expect(open({ ...signed, signature: '' })).toBeUndefined()
    expect(open({ ...signed, signature: `${signed.signature} ` })).toBeUndefined()
    expect(open(signed, 'agent-hello/2')).toBeUndefined()
    const noJson = { text: 'no JSON', signature: sign(Buffer.from('tenon/agent-enrol/1\nno JSON')) }
    expect(open(noJson)).toBeUndefined()
  })
})
