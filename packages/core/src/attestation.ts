import { hasLoneSurrogate, isExactBase64, type Sign, type Verify } from './canonical.ts'
import type { Json } from './json.ts'

/** What a signed statement says of its subject; the first is what `cosign verify` looks for. */
export const PREDICATES = {
  signature: 'https://sigstore.dev/cosign/sign/v1',
  provenance: 'https://slsa.dev/provenance/v1',
} as const

/** How registries show what a bundle holds, as cosign writes it. */
export const BUNDLE_ANNOTATIONS = {
  content: 'dev.sigstore.bundle.content',
  predicateType: 'dev.sigstore.bundle.predicateType',
} as const

/** What a bundle is called as a file, where a tool such as oras writes it. */
export function bundleTitle(predicateType: string): { 'org.opencontainers.image.title': string } {
  const what = predicateType === PREDICATES.provenance ? 'provenance' : 'signature'
  return { 'org.opencontainers.image.title': `${what}.sigstore.json` }
}

const BUNDLE_TYPE = 'application/vnd.dev.sigstore.bundle.v0.3+json'
const STATEMENT_TYPE = 'https://in-toto.io/Statement/v1'
const PAYLOAD_TYPE = 'application/vnd.in-toto+json'
const MAX_BUNDLE_CHARS = 1_048_576

export interface Statement {
  _type: string
  subject: { name: string; digest: { sha256: string } }[]
  predicateType: string
  predicate: { [key: string]: Json }
}

/** One thing that went into an artifact. */
export interface Material {
  uri: string
  /** By algorithm: `sha256`, `gitCommit`. */
  digest: { [algorithm: string]: string }
}

export interface ProvenanceFacts {
  serverId: string
  buildType: string
  external: { [key: string]: Json }
  internal: { [key: string]: Json }
  materials: Material[]
  invocationId: string
  startedOn?: string
  finishedOn?: string
}

export function signatureStatement(subject: { repository: string; digest: string }): Statement {
  return statement(subject, PREDICATES.signature, {})
}

/** SLSA provenance v1: who built it, from what, by which job. */
export function provenanceStatement(
  subject: { repository: string; digest: string },
  facts: ProvenanceFacts,
): Statement {
  const { startedOn, finishedOn } = facts
  return statement(subject, PREDICATES.provenance, {
    buildDefinition: {
      buildType: `https://tenon.dev/build-types/${facts.buildType}/v1`,
      externalParameters: facts.external,
      internalParameters: facts.internal,
      resolvedDependencies: facts.materials.map(({ uri, digest }) => ({ uri, digest })),
    },
    runDetails: {
      builder: { id: `https://tenon.dev/servers/${facts.serverId}` },
      metadata: {
        invocationId: facts.invocationId,
        ...(startedOn === undefined ? {} : { startedOn }),
        ...(finishedOn === undefined ? {} : { finishedOn }),
      },
    },
  })
}

/**
 * A sigstore bundle with the statement in a DSSE envelope. The hint names the key by its id; the envelope names none,
 * since sigstore takes a `keyid` for the key's SSH fingerprint and refuses every other.
 */
export function signStatement(content: Statement, keyId: string, sign: Sign): string {
  const payload = new TextEncoder().encode(JSON.stringify(content))
  return JSON.stringify({
    mediaType: BUNDLE_TYPE,
    verificationMaterial: { publicKey: { hint: keyId }, tlogEntries: [] },
    dsseEnvelope: {
      payload: encode(payload),
      payloadType: PAYLOAD_TYPE,
      signatures: [{ sig: sign(envelopeBytes(PAYLOAD_TYPE, payload)) }],
    },
  })
}

export type BundleProblem = 'malformed' | 'unknown_key' | 'bad_signature' | 'other_subject'

export type BundleCheck =
  | {
      ok: true
      keyId: string
      predicateType: string
      statement: Statement
      /** Whether sigstore's own tools take it as well. */
      isStandard: boolean
    }
  | { ok: false; problem: BundleProblem }

/** Whether a bundle from outside is a trusted key's word on exactly this digest. */
export function checkBundle(
  text: string,
  digest: string,
  keys: ReadonlyMap<string, string>,
  verify: Verify,
): BundleCheck {
  const read = readBundle(text)
  if (!read) return { ok: false, problem: 'malformed' }
  const key = keys.get(read.hint)
  if (key === undefined) return { ok: false, problem: 'unknown_key' }
  if (!verify(key, envelopeBytes(PAYLOAD_TYPE, read.payload), read.signature))
    return { ok: false, problem: 'bad_signature' }
  const content = readStatement(read.payload)
  if (!content) return { ok: false, problem: 'malformed' }
  if (!content.subject.some((subject) => `sha256:${subject.digest.sha256}` === digest))
    return { ok: false, problem: 'other_subject' }
  const { hint: keyId, isStandard } = read
  return { ok: true, keyId, predicateType: content.predicateType, statement: content, isStandard }
}

/** What a bundle says it is, without any trust in it: for showing it. */
export function describeBundle(text: string): { keyId: string; predicateType: string } | undefined {
  const read = readBundle(text)
  const content = read && readStatement(read.payload)
  return content && { keyId: read.hint, predicateType: content.predicateType }
}

function statement(
  subject: { repository: string; digest: string },
  predicateType: string,
  predicate: Statement['predicate'],
): Statement {
  return {
    _type: STATEMENT_TYPE,
    subject: [{ name: subject.repository, digest: { sha256: subject.digest.replace(/^sha256:/, '') } }],
    predicateType,
    predicate,
  }
}

/** DSSE's pre-authentication encoding: type and content cannot be moved into each other. */
function envelopeBytes(type: string, payload: Uint8Array): Uint8Array {
  const head = new TextEncoder().encode(`DSSEv1 ${type.length} ${type} ${payload.byteLength} `)
  const whole = new Uint8Array(head.byteLength + payload.byteLength)
  whole.set(head)
  whole.set(payload, head.byteLength)
  return whole
}

interface ReadBundle {
  hint: string
  payload: Uint8Array
  signature: string
  isStandard: boolean
}

function readBundle(text: string): ReadBundle | undefined {
  if (text.length > MAX_BUNDLE_CHARS) return undefined
  const bundle = parse(text)
  const envelope = field(bundle, 'dsseEnvelope')
  const signatures = field(envelope, 'signatures')
  const hint = field(field(field(bundle, 'verificationMaterial'), 'publicKey'), 'hint')
  const payload = field(envelope, 'payload')
  const only: unknown = Array.isArray(signatures) && signatures.length === 1 ? signatures[0] : null
  const signature = field(only, 'sig')
  if (field(bundle, 'mediaType') !== BUNDLE_TYPE || field(envelope, 'payloadType') !== PAYLOAD_TYPE)
    return undefined
  if (typeof hint !== 'string' || typeof payload !== 'string' || typeof signature !== 'string')
    return undefined
  if (!isExactBase64(payload) || !isExactBase64(signature)) return undefined
  const isStandard = (field(only, 'keyid') ?? '') === ''
  return { hint, payload: decode(payload), signature, isStandard }
}

function readStatement(payload: Uint8Array): Statement | undefined {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(payload)
  } catch {
    return undefined
  }
  const value = hasLoneSurrogate(text) ? undefined : parse(text)
  const subject = field(value, 'subject')
  if (field(value, '_type') !== STATEMENT_TYPE || typeof field(value, 'predicateType') !== 'string')
    return undefined
  if (!Array.isArray(subject) || !subject.every((each) => typeof sha256Of(each) === 'string'))
    return undefined
  return value as Statement
}

const sha256Of = (subject: unknown): unknown => field(field(subject, 'digest'), 'sha256')

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as { [key: string]: unknown })[name]
    : undefined
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function encode(bytes: Uint8Array): string {
  let binary = ''
  for (const byte of bytes) binary += String.fromCharCode(byte)
  return btoa(binary)
}

function decode(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}
