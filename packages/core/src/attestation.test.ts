import { generateKeyPairSync, sign, verify as verifyWith, createPublicKey } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkBundle,
  describeBundle,
  PREDICATES,
  provenanceStatement,
  signatureStatement,
  signStatement,
} from './attestation.ts'
import type { Verify } from './canonical.ts'

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const spki = publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
const KEY = 'key_1'
const keys = new Map([[KEY, spki]])
const signer = (bytes: Uint8Array) => sign(null, bytes, privateKey).toString('base64')
const verify: Verify = (key, bytes, signature) =>
  verifyWith(
    null,
    bytes,
    createPublicKey({ key: Buffer.from(key, 'base64'), format: 'der', type: 'spki' }),
    Buffer.from(signature, 'base64'),
  )
const subject = { repository: 'apps/web', digest: `sha256:${'a'.repeat(64)}` }
const bundle = signStatement(signatureStatement(subject), KEY, signer)

describe('a signed statement', () => {
  it('is trusted for its own digest and key', () => {
    const check = checkBundle(bundle, subject.digest, keys, verify)
    expect(check).toMatchObject({ ok: true, keyId: KEY, predicateType: PREDICATES.signature })
    expect(describeBundle(bundle)).toEqual({ keyId: KEY, predicateType: PREDICATES.signature })
  })

  it('names no key in its envelope, as sigstore wants it; what names one still holds here, and says so', () => {
    const whole = JSON.parse(bundle) as { dsseEnvelope: { signatures: { sig: string; keyid?: string }[] } }
    expect(whole.dsseEnvelope.signatures).toEqual([{ sig: expect.any(String) }])
    expect(checkBundle(bundle, subject.digest, keys, verify)).toMatchObject({ ok: true, isStandard: true })
    whole.dsseEnvelope.signatures[0]!.keyid = KEY
    const named = checkBundle(JSON.stringify(whole), subject.digest, keys, verify)
    expect(named).toMatchObject({ ok: true, isStandard: false })
  })

  it('says who built it, from what, by which job', () => {
    const statement = provenanceStatement(subject, {
      serverId: 'srv_1',
      buildType: 'script',
      external: { component: 'web' },
      internal: { manifestDigest: 'sha256:m' },
      materials: [{ uri: 'git+https://example.com/x', digest: { gitCommit: 'c' } }],
      invocationId: 'job_1',
      startedOn: '2026-11-15T00:00:00.000Z',
    })
    expect(statement).toMatchObject({
      _type: 'https://in-toto.io/Statement/v1',
      predicateType: PREDICATES.provenance,
      subject: [{ name: 'apps/web', digest: { sha256: 'a'.repeat(64) } }],
      predicate: {
        buildDefinition: { resolvedDependencies: [{ digest: { gitCommit: 'c' } }] },
        runDetails: { metadata: { invocationId: 'job_1', startedOn: '2026-11-15T00:00:00.000Z' } },
      },
    })
  })

  it.each([
    ['for another digest', bundle, `sha256:${'b'.repeat(64)}`, keys, 'other_subject'],
    ['by a key nobody pinned', bundle, subject.digest, new Map<string, string>(), 'unknown_key'],
    ['without an envelope', '{}', subject.digest, keys, 'malformed'],
    ['that is no JSON', 'x', subject.digest, keys, 'malformed'],
    ['with two signatures', twice(bundle), subject.digest, keys, 'malformed'],
  ] as const)('is refused %s', (_, text, digest, known, problem) => {
    expect(checkBundle(text, digest, known, verify)).toEqual({ ok: false, problem })
  })

  it('is refused with any other byte in it that is signed', () => {
    const payload = Buffer.from((JSON.parse(bundle) as Bundle).dsseEnvelope.payload, 'base64')
    fc.assert(
      fc.property(fc.nat(payload.byteLength - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const changed = Buffer.from(payload)
        changed[at]! ^= flip
        const whole = JSON.parse(bundle) as Bundle
        whole.dsseEnvelope.payload = changed.toString('base64')
        expect(checkBundle(JSON.stringify(whole), subject.digest, keys, verify).ok).toBe(false)
      }),
    )
  })
})

interface Bundle {
  dsseEnvelope: { payload: string; signatures: object[] }
}

function twice(text: string): string {
  const whole = JSON.parse(text) as Bundle
  whole.dsseEnvelope.signatures.push(...whole.dsseEnvelope.signatures)
  return JSON.stringify(whole)
}
