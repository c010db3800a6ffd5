import { canonicalText, type Sha256, type SigningContext, type Verify } from './canonical.ts'
import { describeLack, FEATURE_NAMES, lacking, type Requirement } from './features.ts'
import { breachOfKind } from './job-kinds.ts'
import type { JobNetwork } from './job-network.ts'
import type { Json } from './json.ts'
import { knownOr } from './open-list.ts'
import { documentDigest, isSignedBy, parseDocument, type SignedDocument } from './signed-text.ts'
import { AGENT_ROLES, JOB_KINDS, type AgentRole, type JobKind } from './states.ts'

/** The form of manifests; 1 had no body, no network and no requirements. */
export const MANIFEST_VERSION = 2
/** No signed manifest is good for longer: what an old key signed ends with it. */
export const MAX_MANIFEST_LIFE_SECONDS = 86_400

/**
 * Exactly what one job may do. Immutable; named by the SHA-256 of its canonical JSON; signed by the server. Signed as an
 * envelope (which job, when) around a `body` (what it does), and read as one: see `nestManifest` and `flatManifest`.
 */
export interface JobManifest extends ManifestBody {
  version: typeof MANIFEST_VERSION
  jobId: string
  fence: number
  /** The digest of the body's canonical JSON: what two jobs have in common that do the same. */
  content: string
  issuedAt: string
  notBefore: string
  expiresAt: string
}

export interface ManifestBody {
  serverId: string
  kind: JobKind
  target: ManifestTarget
  /** The role in the customer's cloud that the job gets, by the name that the app gives it; null: none. */
  role: string | null
  network: JobNetwork
  /** What the agent must be able to do; one that is not refuses the manifest. */
  requires: Requirement[]
  /** Done in order, each by its plugin; the first that fails ends the job. */
  operations: ManifestOperation[]
  limits: ManifestLimits
}

/** Signed ahead for what must go on while the server is away; the agent starts a job from it on its schedule. */
export interface StandingManifest extends ManifestBody {
  version: typeof MANIFEST_VERSION
  standingId: string
  schedule: string
  maxRuns: number
  content: string
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
  /** Of `config`, before anything is rendered. */
  configDigest: string
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

export const REFUSALS = [
  'bad_signature',
  'unknown_key',
  'malformed',
  'unsupported', // it needs what this agent cannot do
  'not_its_kind', // it holds what a job of its kind may not do
  'wrong_install',
  'wrong_server',
  'not_yet_valid',
  'expired',
  'too_long_lived',
  'seen_before',
  'policy',
] as const
export type RefusalCode = (typeof REFUSALS)[number]

type Envelope = Omit<JobManifest, keyof ManifestBody | 'version' | 'content'>
/** Its digest is taken when the manifest is signed. */
export type PlannedOperation = Omit<ManifestOperation, 'configDigest'>
type Draft = Omit<ManifestBody, 'operations'> & { operations: PlannedOperation[] }

/** Pure: the form that is signed, with the digests of its parts. */
export function nestManifest(envelope: Envelope, draft: Draft, sha256: Sha256): object {
  const digestOf = (value: object) => documentDigest(canonicalText(value), sha256)
  const operations = draft.operations.map((one) => ({ ...one, configDigest: digestOf(one.config) }))
  const body = { ...draft, operations }
  return { version: MANIFEST_VERSION, ...envelope, content: digestOf(body), body }
}

/** What the content digest stands for: only the body may say it. */
const BODY_FIELDS: Record<keyof ManifestBody, true> = {
  serverId: true,
  kind: true,
  target: true,
  role: true,
  network: true,
  requires: true,
  operations: true,
  limits: true,
}
/** Which job and when: only the envelope may say it. */
const ENVELOPE_FIELDS: Record<
  Exclude<keyof JobManifest | keyof StandingManifest, keyof ManifestBody>,
  true
> = {
  version: true,
  jobId: true,
  fence: true,
  standingId: true,
  schedule: true,
  maxRuns: true,
  content: true,
  issuedAt: true,
  notBefore: true,
  expiresAt: true,
}

/**
 * Pure: the form that is read; undefined where one field stands in both parts, or in the part that may not say it.
 * What is not known here stays in it, for whoever knows more.
 */
export function flatManifest(signed: unknown): unknown {
  if (!isRecord(signed)) return undefined
  const { body, ...envelope } = signed
  if (!isRecord(body)) return undefined
  const isMisplaced =
    Object.keys(envelope).some((key) => Object.hasOwn(BODY_FIELDS, key) || Object.hasOwn(body, key)) ||
    Object.keys(body).some((key) => Object.hasOwn(ENVELOPE_FIELDS, key))
  return isMisplaced ? undefined : { ...envelope, ...body }
}

function isRecord(value: unknown): value is { [key: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What this server signed itself and kept, of whatever version; the first had no body. */
export function keptManifest(text: string): JobManifest {
  const { body, ...envelope } = JSON.parse(text) as { body?: object }
  return { ...envelope, ...body } as JobManifest
}

export interface ManifestCheck {
  document: SignedDocument
  context: SigningContext & ('job-manifest/1' | 'standing-manifest/1')
  /** Public keys that the agent pinned, by key id. */
  keys: ReadonlyMap<string, string>
  serverId: string
  target: ManifestTarget
  nowMs: number
  /** How far the two clocks may be apart. */
  skewMs: number
  verify: Verify
  sha256: Sha256
}

export type ManifestVerdict<T> = { ok: true; manifest: T } | { ok: false; code: RefusalCode; message: string }

/** `parse` is the protocol's schema; it is asked only after the signature holds. */
export function checkManifest<T extends JobManifest | StandingManifest>(
  check: ManifestCheck,
  parse: (value: unknown) => T | undefined,
): ManifestVerdict<T> {
  const { document, keys, context, verify } = check
  const key = keys.get(document.keyId)
  if (!key) return refuse('unknown_key', `it is signed with key ${document.keyId}, which is not pinned here`)
  if (!isSignedBy(context, document, key, verify))
    return refuse('bad_signature', 'its signature does not match its content')
  const signed = parseDocument(document.text)
  const lack = whyUnsupported(signed)
  if (lack !== undefined) return refuse('unsupported', lack)
  const flat = flatManifest(signed)
  const manifest = flat === undefined ? undefined : parse(flat)
  if (!manifest) return refuse('malformed', 'it does not have the form of a manifest')
  const problem =
    digestProblem(signed as { body: ManifestBody }, manifest, check.sha256) ??
    targetProblem(manifest, check) ??
    timeProblem(manifest, check)
  return problem ?? { ok: true, manifest }
}

/** Read before the rest: a manifest of a later version may have a form that is not known here. */
function whyUnsupported(signed: unknown): string | undefined {
  const { version, body } = (signed ?? {}) as { version?: unknown; body?: unknown }
  const { requires, kind, target } = (body ?? {}) as { requires?: unknown; kind?: unknown; target?: unknown }
  const { role } = (target ?? {}) as { role?: unknown }
  const required = Array.isArray(requires) ? requires.filter(isRequirement) : []
  const lack = lacking(required, FEATURE_NAMES)
  if (lack.length > 0) return describeLack(lack)
  if (typeof version === 'number' && version > MANIFEST_VERSION)
    return `it has version ${version}, and this agent reads ${MANIFEST_VERSION}; update the agent`
  if (typeof kind === 'string' && knownOr(JOB_KINDS, kind) === 'other')
    return `it is a job of the kind ${kind}, which this agent does not know; update the agent`
  if (typeof role === 'string' && knownOr(AGENT_ROLES, role) === 'other')
    return `it is for an agent of the role ${role}, which this agent does not know; update the agent`
  return undefined
}

function isRequirement(value: unknown): value is Requirement {
  const { feature, since } = (value ?? {}) as { feature?: unknown; since?: unknown }
  return typeof feature === 'string' && typeof since === 'string'
}

type Refused = { ok: false; code: RefusalCode; message: string }

/** Approvals and policies name these digests, so they must be those of what runs. */
function digestProblem(
  signed: { body: ManifestBody },
  manifest: { content: string },
  sha256: Sha256,
): Refused | undefined {
  const digestOf = (value: object) => digestIfAny(value, sha256)
  if (digestOf(signed.body) !== manifest.content)
    return refuse('malformed', 'its content digest is not that of its body')
  const wrong = signed.body.operations.find(({ config, configDigest }) => digestOf(config) !== configDigest)
  return wrong && refuse('malformed', `its digest of the configuration of ${wrong.operation} is wrong`)
}

/** Undefined for what has no canonical form: half a surrogate pair, written as an escape. */
function digestIfAny(value: object, sha256: Sha256): string | undefined {
  try {
    return documentDigest(canonicalText(value), sha256)
  } catch {
    return undefined
  }
}

function targetProblem(
  manifest: JobManifest | StandingManifest,
  { serverId, target }: ManifestCheck,
): Refused | undefined {
  if (manifest.serverId !== serverId) return refuse('wrong_server', `it comes from ${manifest.serverId}`)
  if (manifest.target.role !== target.role || manifest.target.installId !== target.installId)
    return refuse('wrong_install', `it is meant for ${describeTarget(manifest.target)}`)
  const breach = breachOfKind(manifest)
  return breach === undefined ? undefined : refuse('not_its_kind', breach)
}

/** Negated, so that a time which cannot be read is refused. Life begins with whichever time is first: a signer chooses both. */
function timeProblem(
  { issuedAt, notBefore, expiresAt }: JobManifest | StandingManifest,
  { nowMs, skewMs }: ManifestCheck,
): Refused | undefined {
  if (!(Date.parse(notBefore) <= nowMs + skewMs))
    return refuse('not_yet_valid', `it is valid from ${notBefore} on; compare the clocks of both machines`)
  if (!(Date.parse(expiresAt) >= nowMs - skewMs))
    return refuse('expired', `it expired at ${expiresAt}; compare the clocks of both machines`)
  const lifeMs = Date.parse(expiresAt) - Math.min(Date.parse(issuedAt), Date.parse(notBefore))
  if (!(lifeMs <= MAX_MANIFEST_LIFE_SECONDS * 1000))
    return refuse('too_long_lived', `it is good for longer than ${MAX_MANIFEST_LIFE_SECONDS / 3600} hours`)
  return undefined
}

export function describeTarget(target: ManifestTarget): string {
  return target.installId ? `install ${target.installId}` : `the ${target.role} agent`
}

function refuse(code: RefusalCode, message: string): Refused {
  return { ok: false, code, message }
}
