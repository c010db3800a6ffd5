import {
  hasLoneSurrogate,
  isExactBase64,
  signingBytes,
  type Sha256,
  type Sign,
  type SigningContext,
  type Verify,
} from './canonical.ts'
import type { Json } from './json.ts'
import type { AgentRole, JobKind } from './states.ts'

/** Exactly what one job may do. Immutable; named by the SHA-256 of its canonical JSON; signed by the server. */
export interface JobManifest {
  version: 1
  serverId: string
  jobId: string
  fence: number
  kind: JobKind
  target: ManifestTarget
  /** Done in order, each by its plugin; the first that fails ends the job. */
  operations: ManifestOperation[]
  limits: ManifestLimits
  issuedAt: string
  notBefore: string
  expiresAt: string
}

/** Signed ahead for what must go on while the server is away; the agent starts a job from it on its schedule. */
export interface StandingManifest {
  version: 1
  serverId: string
  standingId: string
  target: ManifestTarget
  kind: JobKind
  schedule: string
  maxRuns: number
  operations: ManifestOperation[]
  limits: ManifestLimits
  issuedAt: string
  notBefore: string
  expiresAt: string
}

export interface ManifestTarget {
  role: AgentRole
  installId: string | null
}

export const OPERATIONS = [
  'build',
  'plan',
  'deploy',
  'destroy',
  'status',
  'logs',
  'debug',
  'sync',
  'sandbox',
  'action',
] as const
export type OperationName = (typeof OPERATIONS)[number]

export interface ManifestOperation {
  operation: OperationName
  /** `digest` null: the plugin comes with the agent, since nothing can be synced before it. */
  plugin: { name: string; repository: string; digest: string | null }
  component: string | null
  /** What the operation works on, by digest, from the registry of the side it runs on. */
  artifacts: ManifestArtifact[]
  approvedPlan: string | null
  /** Templates and references, never a secret value or a token. */
  config: { [key: string]: Json }
}

export interface ManifestArtifact {
  name: string
  repository: string
  digest: string
}

export interface ManifestLimits {
  memoryBytes: number
  cpus: number
  pids: number
  timeoutSeconds: number
  graceSeconds: number
}

/** `text` is the canonical JSON itself: what is verified is byte for byte what is then parsed. */
export interface SignedDocument {
  text: string
  keyId: string
  signature: string
}

export const REFUSALS = [
  'bad_signature',
  'unknown_key',
  'malformed',
  'wrong_install',
  'wrong_server',
  'not_yet_valid',
  'expired',
  'seen_before',
  'policy',
] as const
export type RefusalCode = (typeof REFUSALS)[number]

export function signDocument(
  context: SigningContext,
  value: object,
  keyId: string,
  sign: Sign,
): SignedDocument {
  const bytes = signingBytes(context, value)
  return { text: textOf(bytes), keyId, signature: sign(bytes) }
}

/** The digest that names a manifest: of its canonical JSON, without the signing context. */
export function documentDigest(text: string, sha256: Sha256): string {
  return `sha256:${sha256(new TextEncoder().encode(text))}`
}

export interface ManifestCheck {
  document: SignedDocument
  context: 'job-manifest/1' | 'standing-manifest/1'
  /** Public keys that the agent pinned, by key id. */
  keys: ReadonlyMap<string, string>
  serverId: string
  target: ManifestTarget
  nowMs: number
  /** How far the two clocks may be apart. */
  skewMs: number
  verify: Verify
}

export type ManifestVerdict<T> = { ok: true; manifest: T } | { ok: false; code: RefusalCode; message: string }

/** `parse` is the protocol's schema; it is asked only after the signature holds. */
export function checkManifest<T extends JobManifest | StandingManifest>(
  check: ManifestCheck,
  parse: (value: unknown) => T | undefined,
): ManifestVerdict<T> {
  const { document, keys, target, nowMs, skewMs } = check
  const key = keys.get(document.keyId)
  if (!key) return refuse('unknown_key', `it is signed with key ${document.keyId}, which is not pinned here`)
  const bytes = new TextEncoder().encode(`tenon/${check.context}\n${document.text}`)
  const exact = isExactBase64(document.signature) && !hasLoneSurrogate(document.text)
  if (!exact || !check.verify(key, bytes, document.signature)) {
    return refuse('bad_signature', 'its signature does not match its content')
  }
  const manifest = parse(parseJson(document.text))
  if (!manifest) return refuse('malformed', 'it does not have the form of a manifest')
  if (manifest.serverId !== check.serverId)
    return refuse('wrong_server', `it comes from ${manifest.serverId}`)
  if (manifest.target.role !== target.role || manifest.target.installId !== target.installId) {
    return refuse('wrong_install', `it is meant for ${describeTarget(manifest.target)}`)
  }
  // Negated, so that a time which cannot be read is refused.
  if (!(Date.parse(manifest.notBefore) <= nowMs + skewMs)) {
    return refuse(
      'not_yet_valid',
      `it is valid from ${manifest.notBefore} on; compare the clocks of both machines`,
    )
  }
  if (!(Date.parse(manifest.expiresAt) >= nowMs - skewMs)) {
    return refuse('expired', `it expired at ${manifest.expiresAt}; compare the clocks of both machines`)
  }
  return { ok: true, manifest }
}

export function describeTarget(target: ManifestTarget): string {
  return target.installId ? `install ${target.installId}` : `the ${target.role} agent`
}

function refuse(code: RefusalCode, message: string): { ok: false; code: RefusalCode; message: string } {
  return { ok: false, code, message }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function textOf(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes)
  return text.slice(text.indexOf('\n') + 1)
}
