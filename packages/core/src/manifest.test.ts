import { createHash, generateKeyPairSync, sign as signBytes, verify as verifyBytes } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalText, type Sign, type Verify } from './canonical.ts'
import {
  checkManifest,
  describeTarget,
  documentDigest,
  signDocument,
  type JobManifest,
  type ManifestCheck,
  type SignedDocument,
} from './manifest.ts'

const { publicKey, privateKey } = generateKeyPairSync('ed25519')
const other = generateKeyPairSync('ed25519')
const pem = publicKey.export({ type: 'spki', format: 'pem' }) as string
const sign: Sign = (bytes) => signBytes(null, bytes, privateKey).toString('base64')
const verify: Verify = (key, bytes, signature) =>
  verifyBytes(null, bytes, key, Buffer.from(signature, 'base64'))
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

const NOW = Date.parse('2026-11-15T12:00:00.000Z')
const manifest: JobManifest = {
  version: 1,
  serverId: 'server-1',
  jobId: 'job_1',
  fence: 3,
  kind: 'deploy',
  target: { role: 'install', installId: 'ins_1' },
  operations: [],
  limits: { memoryBytes: 1, cpus: 1, pids: 1, timeoutSeconds: 1, graceSeconds: 1 },
  issuedAt: '2026-11-15T11:59:00.000Z',
  notBefore: '2026-11-15T11:59:00.000Z',
  expiresAt: '2026-11-15T12:30:00.000Z',
}
const signed = (value: object = manifest) => signDocument('job-manifest/1', value, 'key_1', sign)
const parse = (value: unknown) =>
  typeof value === 'object' && value !== null && 'fence' in value ? (value as JobManifest) : undefined

function check(document: SignedDocument, changes: Partial<ManifestCheck> = {}) {
  const verdict = checkManifest<JobManifest>(
    {
      document,
      context: 'job-manifest/1',
      keys: new Map([['key_1', pem]]),
      serverId: 'server-1',
      target: manifest.target,
      nowMs: NOW,
      skewMs: 60_000,
      verify,
      ...changes,
    },
    parse,
  )
  return verdict.ok ? verdict.manifest : verdict.code
}

describe('checkManifest', () => {
  it('accepts what the server signed, byte for byte', () => {
    expect(check(signed())).toEqual(manifest)
    expect(signed().text).toBe(canonicalText(manifest))
    expect(documentDigest(signed().text, sha256)).toBe(`sha256:${sha256(Buffer.from(signed().text))}`)
  })

  it('refuses any change of a single byte, of the text or of the signature', () => {
    const document = signed({ ...manifest, serverId: 'with \uFFFD and \u00e9' })
    const anyBytes = fc.tuple(
      fc.constantFrom('text' as const, 'signature' as const),
      fc.nat(),
      fc.nat(0xffff),
    )
    fc.assert(
      fc.property(anyBytes, ([field, position, code]) => {
        const value = document[field]
        const at = position % value.length
        const changed = value.slice(0, at) + String.fromCharCode(code) + value.slice(at + 1)
        fc.pre(changed !== value)
        expect(check({ ...document, [field]: changed })).toBe('bad_signature')
      }),
      { numRuns: 1000 },
    )
    const letters = ['A', 'B', 'Q', 'g', 'w', '=', '/', '+', ' ']
    const signatures = Array.from(document.signature).flatMap((_, at) =>
      letters.map((letter) => document.signature.slice(0, at) + letter + document.signature.slice(at + 1)),
    )
    for (const signature of signatures.filter((s) => s !== document.signature)) {
      expect(check({ ...document, signature })).toBe('bad_signature')
    }
    expect(check({ ...document, text: document.text.replace('\uFFFD', '\uD800') })).toBe('bad_signature')
    expect(check({ ...document, text: `${document.text} ` })).toBe('bad_signature')
    expect(check({ ...document, signature: document.signature.slice(0, -2) })).toBe('bad_signature')
  })

  it('refuses a key that is not pinned, another key under a pinned name, and a signature for another purpose', () => {
    expect(check({ ...signed(), keyId: 'key_2' })).toBe('unknown_key')
    const otherPem = other.publicKey.export({ type: 'spki', format: 'pem' }) as string
    expect(check(signed(), { keys: new Map([['key_1', otherPem]]) })).toBe('bad_signature')
    expect(check(signed(), { context: 'standing-manifest/1' })).toBe('bad_signature')
  })

  it('refuses what is signed but not a manifest', () => {
    expect(check(signed({ hello: 'world' }))).toBe('malformed')
    const text = 'not json'
    const signature = sign(Buffer.from(`tenon/job-manifest/1\n${text}`))
    expect(check({ text, keyId: 'key_1', signature })).toBe('malformed')
  })

  it('refuses one for another server, install or role', () => {
    expect(check(signed(), { serverId: 'server-2' })).toBe('wrong_server')
    expect(check(signed(), { target: { role: 'install', installId: 'ins_2' } })).toBe('wrong_install')
    expect(check(signed(), { target: { role: 'build', installId: null } })).toBe('wrong_install')
    expect(describeTarget({ role: 'build', installId: null })).toBe('the build agent')
  })

  it('refuses one before and after its time, allowing for clocks that are apart, and times that are none', () => {
    const before = Date.parse(manifest.notBefore) - 60_000
    const after = Date.parse(manifest.expiresAt) + 60_000
    expect(check(signed(), { nowMs: before })).toEqual(manifest)
    expect(check(signed(), { nowMs: before - 1 })).toBe('not_yet_valid')
    expect(check(signed(), { nowMs: after })).toEqual(manifest)
    expect(check(signed(), { nowMs: after + 1 })).toBe('expired')
    expect(check(signed({ ...manifest, notBefore: 'soon' }))).toBe('not_yet_valid')
    expect(check(signed({ ...manifest, expiresAt: 'never' }))).toBe('expired')
  })
})
