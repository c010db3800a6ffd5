import { JOB_END_REASONS, REFUSALS } from '@tenon/core'
import { z } from 'zod'
import { keyLink } from './enrol.ts'
import { signedDocument } from './manifest.ts'
import {
  clippedText,
  digest,
  id,
  json,
  jsonObject,
  partName,
  repository,
  text,
  timestamp,
} from './scalars.ts'

/** Control frames are JSON text of at most this size; log bytes travel in binary frames (`bulk.ts`). */
export const MAX_CONTROL_FRAME = 1_048_576
export const MAX_BULK_PAYLOAD = 65_536
/** How many log bytes of one job may be on the way without an acknowledgement. */
export const LOG_WINDOW = 262_144

const fence = z.int().positive()
const job = { jobId: id, fence }

export const auditHead = z.strictObject({
  chain: z.string().max(64),
  seq: z.int().nonnegative(),
  hash: z.string().length(64),
})

/** What a job left behind: the values of sensitive outputs stay in the install, only their names are here. */
export const jobOutputs = z.record(
  z.string().max(128),
  z.strictObject({ sensitive: z.boolean(), value: json.optional() }),
)

export const jobReport = z.strictObject({
  ...job,
  agentId: id,
  manifestDigest: digest,
  outcome: z.enum(['succeeded', 'failed', 'canceled']),
  reason: z.enum(JOB_END_REASONS),
  exitCode: z.int().nullable(),
  message: clippedText(2000),
  result: jsonObject,
  outputs: jobOutputs,
  logBytes: z.int().nonnegative(),
  startedAt: timestamp.nullable(),
  finishedAt: timestamp,
})
export type JobReport = z.infer<typeof jobReport>

/** Something the agent, or its owner at its side, did or saw that is no job: a re-attachment, a drop, a pause. Numbered, so that each is taken once. */
export const agentEvent = z.strictObject({
  seq: z.int().positive(),
  at: timestamp,
  action: z.enum([
    'agent.started',
    'agent.reattached',
    'agent.swept',
    'agent.dropped',
    'agent.audit_mismatch',
    'agent.synced',
    'agent.paused',
    'agent.resumed',
    'agent.secret_set',
  ]),
  jobId: id.nullable(),
  details: jsonObject,
})
export type AgentEvent = z.infer<typeof agentEvent>

/** What a build pushed, for the server to sign. The server reads the content itself; only `materials` are the job's word. */
export const attestationRequest = z.strictObject({
  digest,
  mediaType: text(255),
  size: z.int().nonnegative(),
  materials: z
    .array(
      z.strictObject({
        uri: text(500),
        digest: z.record(z.string().max(32), z.string().max(200)),
      }),
    )
    .max(200),
})
export type AttestationRequest = z.infer<typeof attestationRequest>

export const runtimeInfo = z.strictObject({
  name: text(40),
  confinement: text(500),
  warnings: z.array(text(500)).max(20),
  /** What the agent gives to jobs, besides `slots`. Without it all kinds share the slots. */
  capacity: z
    .strictObject({
      interactiveSlots: z.int().nonnegative().max(10_000),
      memoryBytes: z.number().positive().nullable(),
      cpus: z.number().positive().nullable(),
    })
    .optional(),
})

export type RuntimeInfo = z.infer<typeof runtimeInfo>

/** agent → server */
export const agentFrame = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('open'), wire: z.int(), agentId: id, nonce: z.base64().max(64) }),
  z.strictObject({
    type: z.literal('hello'),
    bootCounter: z.int().positive(),
    /** Random, made at each start: tells a reconnect of one start from a copy of the agent with the same counter. */
    bootId: z.string().min(16).max(64),
    version: text(50),
    runtime: runtimeInfo,
    slots: z.int().positive().max(10_000),
    inventory: z
      .array(z.strictObject({ ...job, state: z.enum(['accepted', 'running', 'finished']) }))
      .max(20_000),
    auditHead: auditHead.nullable(),
    recipient: z.strictObject({ age: text(200), signature: z.base64() }).nullable(),
    /** Over {agentId, agentNonce, bootCounter, bootId, nonce, serverId, wire} in the context `agent-hello/1`. */
    signature: z.base64().max(200),
  }),
  z.strictObject({
    type: z.literal('heartbeat'),
    running: z.int().nonnegative(),
    outboxBytes: z.int().nonnegative(),
    dropped: z.int().nonnegative(),
  }),
  z.strictObject({ type: z.literal('job.accepted'), ...job }),
  z.strictObject({
    type: z.literal('job.refused'),
    ...job,
    code: z.enum(REFUSALS),
    message: clippedText(1000),
  }),
  z.strictObject({ type: z.literal('job.started'), ...job, at: timestamp, confinement: clippedText(500) }),
  z.strictObject({
    type: z.literal('job.progress'),
    ...job,
    message: clippedText(300),
    fraction: z.number().min(0).max(1).nullable(),
  }),
  z.strictObject({ type: z.literal('job.finished'), report: jobReport, signature: z.base64().max(200) }),
  z.strictObject({ type: z.literal('log.open'), stream: z.int().positive().max(0xffffffff), ...job }),
  z.strictObject({
    type: z.literal('log.end'),
    stream: z.int().positive().max(0xffffffff),
    bytes: z.int().nonnegative(),
  }),
  z.strictObject({ type: z.literal('event'), event: agentEvent, signature: z.base64().max(200) }),
  z.strictObject({
    type: z.literal('credential.request'),
    requestId: z.int().positive(),
    ...job,
    want: z.enum(['registry', 'join-token', 'attestation']),
    /** What is to be attested; with `attestation` only. */
    artifact: attestationRequest.optional(),
  }),
  z.strictObject({
    type: z.literal('secret.stored'),
    secretId: z.int().positive(),
    ok: z.boolean(),
    message: clippedText(300),
  }),
])
export type AgentFrame = z.infer<typeof agentFrame>

export const REJECT_CODES = [
  'unknown_agent',
  'bad_signature',
  'wire_version',
  'superseded',
  'quarantined',
  'revoked',
  'bad_frame',
  'out_of_order',
  'too_large',
  'busy',
  'stopping',
] as const

/** server → agent */
export const serverFrame = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('challenge'),
    wire: z.int(),
    serverId: z.string(),
    nonce: z.base64(),
    keyId: id,
    /** Over {agentId, agentNonce, nonce, serverId} in the context `server-challenge/1`. */
    signature: z.base64(),
    keys: z.array(keyLink),
  }),
  z.object({
    type: z.literal('welcome'),
    sessionId: id,
    heartbeatSeconds: z.number().positive(),
    leaseSeconds: z.number().positive(),
    verdicts: z.array(z.object({ ...job, verdict: z.enum(['keep', 'stop', 'forget']) })),
    auditHead: auditHead.nullable(),
    eventSeq: z.int().nonnegative(),
    at: timestamp,
  }),
  /** The session ends after this; `superseded`, `quarantined` and `revoked` also end the agent. */
  z.object({ type: z.literal('reject'), code: z.enum(REJECT_CODES), message: z.string() }),
  z.object({ type: z.literal('job.assign'), manifest: signedDocument }),
  z.object({ type: z.literal('job.cancel'), ...job }),
  /** The result is stored for good; the agent may forget the job. */
  z.object({ type: z.literal('job.settled'), ...job, auditHead: auditHead.nullable() }),
  z.object({ type: z.literal('heartbeat.ack'), at: timestamp }),
  z.object({ type: z.literal('log.ack'), stream: z.int().positive(), offset: z.int().nonnegative() }),
  z.object({ type: z.literal('event.ack'), seq: z.int().positive(), auditHead: auditHead.nullable() }),
  z.object({
    type: z.literal('credential.grant'),
    requestId: z.int().positive(),
    get credential() {
      return credential
    },
  }),
  z.object({ type: z.literal('credential.refused'), requestId: z.int().positive(), message: z.string() }),
  z.object({
    type: z.literal('secret.deliver'),
    secretId: z.int().positive(),
    name: partName,
    ciphertext: z.base64(),
  }),
  z.object({ type: z.literal('keys'), keys: z.array(keyLink) }),
])
export type ServerFrame = z.infer<typeof serverFrame>
export type RejectCode = (typeof REJECT_CODES)[number]

/** Access to the vendor registry for one job: short, and bound to the job, its fencing number and what its manifest names. */
export const registryCredential = z.object({
  want: z.literal('registry'),
  /** Path below the server's own address, or an absolute address of an external registry. */
  registry: z.string(),
  bearer: z.string(),
  repositories: z.array(z.object({ name: repository, actions: z.array(z.enum(['pull', 'push'])) })),
  expiresAt: timestamp,
  /** Of a sync: redeemed once, at `url` (as `registry`) by basic authentication, for the bearer; `bearer` is then empty. */
  oneTime: z.object({ url: z.string(), username: z.string(), password: z.string() }).optional(),
  /** What the server wishes its registry to be spared to. */
  pace: z
    .object({ concurrent: z.int().positive(), bytesPerSecond: z.number().positive().optional() })
    .optional(),
})

/** For a sandbox job: what the new install agent enrols with. */
export const joinCredential = z.object({
  want: z.literal('join-token'),
  joinToken: z.string(),
  expiresAt: timestamp,
})

/** Sigstore bundles (JSON text) over the artifact: its signature and its provenance. */
export const attestationCredential = z.object({
  want: z.literal('attestation'),
  repository,
  subject: z.object({ digest, mediaType: z.string(), size: z.int().nonnegative() }),
  bundles: z.array(z.object({ predicateType: z.string(), text: z.string().max(500_000) })).max(10),
})

const credential = z.discriminatedUnion('want', [registryCredential, joinCredential, attestationCredential])
export type JobCredential = z.infer<typeof credential>
