import { createHash, generateKeyPairSync, sign as signBytes, verify as verifyBytes } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalText, type Sign, type Verify } from './canonical.ts'
import {
  checkManifest,
  describeTarget,
  flatManifest,
  nestManifest,
  type JobManifest,
  type ManifestCheck,
} from './manifest.ts'
import { documentDigest, signDocument, type SignedDocument } from './signed-text.ts'

const { publicKey, privateKey } = generateKeyPairSync('ed25519')
const other = generateKeyPairSync('ed25519')
const pem = publicKey.export({ type: 'spki', format: 'pem' }) as string
const sign: Sign = (bytes) => signBytes(null, bytes, privateKey).toString('base64')
const verify: Verify = (key, bytes, signature) =>
  verifyBytes(null, bytes, key, Buffer.from(signature, 'base64'))
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

const NOW = Date.parse('2026-11-15T12:00:00.000Z')
const times = {
  issuedAt: '2026-11-15T11:59:00.000Z',
  notBefore: '2026-11-15T11:59:00.000Z',
  expiresAt: '2026-11-15T12:30:00.000Z',
}
const envelope = { jobId: 'job_1', fence: 3, ...times }
const operation = {
  operation: 'deploy' as const,
  plugin: { name: 'script', repository: 'plugins/script', digest: `sha256:${'1'.repeat(64)}` },
  component: 'web',
  artifacts: [],
  approvedPlan: null,
  config: { component: { port: 80 } },
}
const body = {
  serverId: 'server-1',
  kind: 'deploy' as const,
  target: { role: 'install' as const, installId: 'ins_1' },
  role: 'maintenance',
  network: { mode: 'internal' as const, names: [] },
  requires: [],
  operations: [operation],
  limits: { memoryBytes: 1, cpus: 1, pids: 1, timeoutSeconds: 1, graceSeconds: 1 },
}
const nest = (changes: Partial<Parameters<typeof nestManifest>[1]> = {}, at: Partial<typeof envelope> = {}) =>
  nestManifest({ ...envelope, ...at }, { ...body, ...changes }, sha256) as { body: object; content: string }
const manifest = flatManifest(nest()) as JobManifest
const signed = (value: object = nest()) => signDocument('job-manifest/1', value, 'key_1', sign)
const parse = (value: unknown) =>
  typeof value === 'object' && value !== null && 'fence' in value ? (value as JobManifest) : undefined

function check(document: SignedDocument, changes: Partial<ManifestCheck> = {}) {
  const verdict = checkManifest<JobManifest>(checkOf(document, changes), parse)
  return verdict.ok ? verdict.manifest : verdict.code
}

function checkOf(document: SignedDocument, changes: Partial<ManifestCheck> = {}): ManifestCheck {
  return {
    document,
    context: 'job-manifest/1',
    keys: new Map([['key_1', pem]]),
    serverId: 'server-1',
    target: manifest.target,
    nowMs: NOW,
    skewMs: 60_000,
    verify,
    sha256,
    ...changes,
  }
}

describe('checkManifest', () => {
  it('accepts what the server signed, byte for byte', () => {
    expect(check(signed())).toEqual(manifest)
    expect(signed().text).toBe(canonicalText(nest()))
    expect(documentDigest(signed().text, sha256)).toBe(`sha256:${sha256(Buffer.from(signed().text))}`)
  })

  it('refuses any change of a single byte, of the text or of the signature', () => {
    const document = signed(nest({ serverId: 'with \uFFFD and \u00e9' }))
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
    expect(check(signed(nest({}, { notBefore: 'soon' })))).toBe('not_yet_valid')
    expect(check(signed(nest({}, { expiresAt: 'never' })))).toBe('expired')
  })

  it('refuses one that is good for longer than any may be', () => {
    const late = nest({}, { expiresAt: '2026-11-16T11:59:00.001Z' })
    expect(check(signed(late))).toBe('too_long_lived')
    expect(check(signed(nest({}, { expiresAt: '2026-11-16T11:59:00.000Z' })))).toMatchObject({ fence: 3 })
  })

  it('counts that time from when it may first start, whatever it says of when it was issued', () => {
    const aYearOn = { issuedAt: '2027-11-14T12:00:00.000Z', expiresAt: '2027-11-15T12:00:00.000Z' }
    expect(check(signed(nest({}, aYearOn)))).toBe('too_long_lived')
    expect(check(signed(nest({}, { issuedAt: 'some day' })))).toBe('too_long_lived')
  })

  it('refuses digests that are not those of what it holds', () => {
    const other = nest({ role: 'provision' })
    expect(check(signed({ ...nest(), content: other.content }))).toBe('malformed')
    const lying = { ...body, operations: [{ ...operation, configDigest: manifest.content }] }
    const content = documentDigest(canonicalText(lying), sha256)
    expect(check(signed({ ...nest(), body: lying, content }))).toBe('malformed')
  })

  it('has one content digest for what does the same, whichever job it is and when', () => {
    expect(nest({}, { jobId: 'job_2', fence: 9, issuedAt: '2026-11-15T11:00:00.000Z' }).content).toBe(
      nest().content,
    )
    expect(nest({ role: 'provision' }).content).not.toBe(nest().content)
  })

  it('ignores what it does not know, in the envelope, in the body and in an operation', () => {
    const newer = {
      ...body,
      later: { is: 'better' },
      operations: [Object.assign({ hint: 'a newer field' }, operation)],
    } as typeof body
    const document = signed({ ...nest(newer), alsoLater: 1 })
    expect(check(document)).toMatchObject({ jobId: 'job_1', later: { is: 'better' } })
  })

  it('refuses fields of the body in the envelope, since the content digest does not stand for them', () => {
    for (const [field, value] of Object.entries({ ...body, kind: 'destroy', limits: { memoryBytes: 9 } }))
      expect([field, check(signed({ ...nest(), [field]: value }))]).toEqual([field, 'malformed'])
    expect(check(signed({ ...nest(), later: 1, body: { ...body, later: 2 } }))).toBe('malformed')
    const { requires: _, ...without } = nest().body as { requires: unknown }
    const content = documentDigest(canonicalText(without), sha256)
    expect(check(signed({ ...nest(), body: without, content, requires: [] }))).toBe('malformed')
  })

  it('takes no field of the envelope from the body', () => {
    const twice = { ...body, fence: 9, expiresAt: '2026-11-15T23:00:00.000Z' } as typeof body
    expect(check(signed(nest(twice)))).toBe('malformed')
    const { fence: _, ...without } = { fence: 0, ...nest({ ...body, fence: 9 } as typeof body) }
    expect(check(signed(without))).toBe('malformed')
  })

  it('ignores a field of the envelope that is called as every object has one', () => {
    expect(check(signed({ ...nest(), constructor: 'later' }))).toMatchObject({ jobId: 'job_1' })
  })

  it('refuses, and never throws at, a body that is no object and one without a canonical form', () => {
    for (const odd of [null, 'body', 7, [body], undefined])
      expect(check(signed(Object.assign(nest(), { body: odd })))).toBe('malformed')
    const text = signed(nest({ role: 'half a pair' })).text.replace('half a pair', '\\ud800')
    const signature = sign(Buffer.from(`tenon/job-manifest/1\n${text}`))
    expect(check({ text, keyId: 'key_1', signature })).toBe('malformed')
  })

  it('refuses what needs more than it can, and says which agent can', () => {
    const requires = [
      { feature: 'hold', since: '0.2' },
      { feature: 'teleport', since: '0.9' },
      { feature: 'levitate', since: '0.10' },
    ]
    const verdict = checkManifest<JobManifest>(
      { ...checkOf(signed(nest({ requires }))), context: 'job-manifest/1' },
      () => undefined,
    )
    expect(verdict).toMatchObject({ ok: false, code: 'unsupported' })
    expect(verdict.ok || verdict.message).toBe('it needs agent ≥ 0.10, which has teleport, levitate')
    expect(check(signed({ ...nest(), version: 3 }))).toBe('unsupported')
    expect(check(signed(nest({ kind: 'levitate' as JobManifest['kind'] })))).toBe('unsupported')
    const target = { role: 'overseer' as JobManifest['target']['role'], installId: null }
    expect(check(signed(nest({ target })))).toBe('unsupported')
  })

  it('refuses what a job of its kind may not hold', () => {
    const registryWriter = { ...operation, plugin: { ...operation.plugin, name: 'sync' } }
    const sync = { kind: 'sync' as const, operations: [{ ...operation, operation: 'sync' as const }] }
    for (const changes of [
      { operations: [{ ...operation, operation: 'destroy' as const }] },
      { operations: [{ ...operation, plugin: { ...operation.plugin, digest: null } }] },
      { operations: [operation, { ...operation, operation: 'sandbox' as const }] },
      { kind: 'build' as const },
      sync,
      { ...sync, operations: [{ ...registryWriter, operation: 'sync' as const }] },
    ])
      expect(check(signed(nest(changes)))).toBe('not_its_kind')
    const own = { name: 'sync', repository: 'plugins/sync', digest: null }
    const good = { ...sync, operations: [{ ...operation, operation: 'sync' as const, plugin: own }] }
    expect(check(signed(nest(good)))).toMatchObject({ kind: 'sync' })
  })
})
