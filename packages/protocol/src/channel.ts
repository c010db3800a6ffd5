import { JOB_END_REASONS, JOB_OUTCOMES, knownOr, REFUSALS, type ActionOn } from '@tenon/core'
import { z } from 'zod'
import { jobCredential } from './credential.ts'
import { keyLink } from './enrol.ts'
import { signedDocument } from './signed-document.ts'
import { clippedText, digest, id, json, jsonObject, openValue, partName, text, timestamp } from './scalars.ts'

/** Control frames are JSON text of at most this size; log bytes travel in binary frames (`bulk.ts`). */
export const MAX_CONTROL_FRAME = 1_048_576
export const MAX_BULK_PAYLOAD = 65_536
/** How many log bytes of one job may be on the way without an acknowledgement. */
export const LOG_WINDOW = 262_144

const fence = z.int().positive()
const job = { jobId: id, fence }

/** Fields that are not known here are left out, in both directions; a frame of an unknown type is answered by `unsupported`. */
export const auditHead = z.object({
  chain: z.string().max(64),
  seq: z.int().nonnegative(),
  hash: z.string().length(64),
})

/** What a job left behind: the values of sensitive outputs stay in the install, only their names are here. */
export const jobOutputs = z.record(
  z.string().max(128),
  z.object({ sensitive: z.boolean(), value: json.optional() }),
)

/** Signed by the agent in the context `job-report/1`. */
export const jobReport = z.object({
  ...job,
  agentId: id,
  manifestDigest: digest,
  /** One that is not known here counts as failed. */
  outcome: openValue(JOB_OUTCOMES),
  reason: openValue(JOB_END_REASONS),
  exitCode: z.int().nullable(),
  message: clippedText(2000),
  result: jsonObject,
  outputs: jobOutputs,
  logBytes: z.int().nonnegative(),
  startedAt: timestamp.nullable(),
  finishedAt: timestamp,
})
export type JobReport = z.infer<typeof jobReport>

export const AGENT_EVENTS = [
  'agent.started',
  'agent.reattached',
  'agent.swept',
  'agent.job_forgotten',
  'agent.dropped',
  'agent.audit_mismatch',
  'agent.synced',
  'agent.paused',
  'agent.resumed',
  'agent.secret_set',
  'agent.released',
  'agent.key_rotated',
] as const satisfies readonly ActionOn<'agent' | 'job'>[]

/**
 * Something the agent, or its owner at its side, did or saw that is no job: a re-attachment, a drop, a pause. Numbered, so
 * that each is taken once. Signed in the context `agent-event/1`.
 */
export const agentEvent = z.object({
  agentId: id,
  seq: z.int().positive(),
  at: timestamp,
  action: openValue(AGENT_EVENTS),
  jobId: id.nullable(),
  details: jsonObject,
})
export type AgentEvent = z.infer<typeof agentEvent>

/**
 * An agent's word on a job: *not now* with `job.held`, *no* with `job.refused`. *Yes* is signed as well, but later: it is the
 * report, which names the same manifest. Signed in the context `agent-verdict/1`.
 */
export const agentVerdict = z.object({
  agentId: id,
  ...job,
  manifestDigest: digest,
  answer: openValue(['not_now', 'no']),
  /** Which rule of the customer says so: `pause`; of a refusal, its code. */
  rule: text(64),
  reason: clippedText(1000),
  /** When it may start by itself, where that is known. */
  until: timestamp.nullable(),
  /** When it was first held; of later agents. */
  since: timestamp.optional(),
  at: timestamp,
})
export type AgentVerdict = z.infer<typeof agentVerdict>

/** The last moment at which a held job may start. Signed by the server in the context `job-start/1`. */
export const startPermit = z.object({ serverId: z.string().max(128), ...job, startBefore: timestamp })
export type StartPermit = z.infer<typeof startPermit>

/** What a build pushed, for the server to sign. The server reads the content itself; only `materials` are the job's word. */
export const attestationRequest = z.object({
  digest,
  mediaType: text(255),
  size: z.int().nonnegative(),
  materials: z
    .array(z.object({ uri: text(500), digest: z.record(z.string().max(32), z.string().max(200)) }))
    .max(200),
})
export type AttestationRequest = z.infer<typeof attestationRequest>

export const runtimeInfo = z.object({
  name: text(40),
  confinement: text(500),
  warnings: z.array(text(500)).max(20),
  /** What the agent gives to jobs, besides `slots`. Without it all kinds share the slots. */
  capacity: z
    .object({
      interactiveSlots: z.int().nonnegative().max(10_000),
      memoryBytes: z.number().positive().nullable(),
      cpus: z.number().positive().nullable(),
    })
    .optional(),
})
export type RuntimeInfo = z.infer<typeof runtimeInfo>

/** A job in a state that is not known here is kept as one that runs. */
const HELD_STATES = ['accepted', 'held', 'running', 'finished'] as const
const heldState = openValue(HELD_STATES).transform((state) => {
  const known = knownOr(HELD_STATES, state)
  return known === 'other' ? 'running' : known
})

const wireRange = z.object({ min: z.int().positive(), max: z.int().positive() })

/** Who greets whom, and what both hold. Signed by the agent in the context `agent-hello/2`. */
export const agentHello = z.object({
  agentId: id,
  serverId: z.string().max(128),
  agentNonce: z.base64().max(64),
  nonce: z.base64().max(64),
  /** The version that the challenge chose, so that nobody in between can choose another. */
  wire: z.int().positive(),
  bootCounter: z.int().positive(),
  /** Random, made at each start: tells a reconnect of one start from a copy of the agent with the same counter. */
  bootId: z.string().min(16).max(64),
  version: text(50),
  /** Names of core's `FEATURES`, and of later ones. */
  features: z.array(text(64)).max(200),
  /** What its `open` said, where nobody had signed it; absent: an agent that does not repeat it. */
  speaks: wireRange.optional(),
  runtime: runtimeInfo,
  slots: z.int().positive().max(10_000),
  inventory: z.array(z.object({ ...job, state: heldState })).max(20_000),
  auditHead: auditHead.nullable(),
  recipient: z.object({ age: text(200), signature: z.base64() }).nullable(),
})
export type AgentHello = z.infer<typeof agentHello>

/** The server's proof of its key. Signed in the context `server-challenge/2`. */
export const serverChallenge = z.object({
  agentId: id,
  agentNonce: z.base64().max(64),
  nonce: z.base64().max(64),
  serverId: z.string(),
  /** The newest version that both sides speak. */
  wire: z.int().positive(),
  version: z.string(),
})
export type ServerChallenge = z.infer<typeof serverChallenge>

/** Either side's answer to a frame that it does not know: nothing happened, and the session goes on. */
const unsupported = z.object({
  type: z.literal('unsupported'),
  frame: clippedText(64),
  code: openValue(['unknown_frame']),
  message: clippedText(300),
})

/** agent → server */
export const agentFrame = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('open'),
    /** A number: of an agent that spoke one version only. */
    wire: z.union([z.int().transform((version) => ({ min: version, max: version })), wireRange]),
    agentId: id,
    nonce: z.base64().max(64),
  }),
  z.object({ type: z.literal('hello'), hello: signedDocument }),
  z.object({
    type: z.literal('heartbeat'),
    running: z.int().nonnegative(),
    outboxBytes: z.int().nonnegative(),
    dropped: z.int().nonnegative(),
  }),
  z.object({ type: z.literal('job.accepted'), ...job }),
  z.object({ type: z.literal('job.held'), ...job, verdict: signedDocument }),
  z.object({
    type: z.literal('job.refused'),
    ...job,
    code: openValue(REFUSALS),
    message: clippedText(1000),
    /** Of later agents. */
    verdict: signedDocument.optional(),
  }),
  z.object({ type: z.literal('job.started'), ...job, at: timestamp, confinement: clippedText(500) }),
  z.object({
    type: z.literal('job.progress'),
    ...job,
    message: clippedText(300),
    fraction: z.number().min(0).max(1).nullable(),
  }),
  z.object({ type: z.literal('job.finished'), ...job, report: signedDocument }),
  z.object({ type: z.literal('log.open'), stream: z.int().positive().max(0xffffffff), ...job }),
  z.object({
    type: z.literal('log.end'),
    stream: z.int().positive().max(0xffffffff),
    bytes: z.int().nonnegative(),
  }),
  z.object({ type: z.literal('event'), event: signedDocument }),
  z.object({
    type: z.literal('credential.request'),
    requestId: z.int().positive(),
    ...job,
    want: openValue(['registry', 'join-token', 'attestation']),
    /** What is to be attested; with `attestation` only. */
    artifact: attestationRequest.optional(),
  }),
  z.object({
    type: z.literal('secret.stored'),
    secretId: z.int().positive(),
    ok: z.boolean(),
    message: clippedText(300),
  }),
  unsupported,
])
export type AgentFrame = z.infer<typeof agentFrame>
/** The types of frames that are known here. */
export const AGENT_FRAMES: ReadonlySet<string> = new Set(
  agentFrame.options.map((option) => option.shape.type.value),
)

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
  z.object({ type: z.literal('challenge'), challenge: signedDocument, keys: z.array(keyLink) }),
  z.object({
    type: z.literal('welcome'),
    sessionId: id,
    heartbeatSeconds: z.number().positive(),
    leaseSeconds: z.number().positive(),
    verdicts: z.array(z.object({ ...job, verdict: openValue(['keep', 'stop', 'forget']) })),
    auditHead: auditHead.nullable(),
    eventSeq: z.int().nonnegative(),
    at: timestamp,
  }),
  /** The session ends after this; `superseded`, `quarantined` and `revoked` also end the agent. */
  z.object({ type: z.literal('reject'), code: openValue(REJECT_CODES), message: z.string() }),
  z.object({ type: z.literal('job.assign'), manifest: signedDocument }),
  z.object({ type: z.literal('job.cancel'), ...job }),
  /** Answers `job.held`: until when it may start. */
  z.object({ type: z.literal('job.permit'), permit: signedDocument }),
  /** The result is stored for good; the agent may forget the job. */
  z.object({ type: z.literal('job.settled'), ...job, auditHead: auditHead.nullable() }),
  z.object({ type: z.literal('heartbeat.ack'), at: timestamp }),
  z.object({ type: z.literal('log.ack'), stream: z.int().positive(), offset: z.int().nonnegative() }),
  z.object({ type: z.literal('event.ack'), seq: z.int().positive(), auditHead: auditHead.nullable() }),
  z.object({
    type: z.literal('credential.grant'),
    requestId: z.int().positive(),
    credential: jobCredential,
  }),
  z.object({ type: z.literal('credential.refused'), requestId: z.int().positive(), message: z.string() }),
  z.object({
    type: z.literal('secret.deliver'),
    secretId: z.int().positive(),
    name: partName,
    ciphertext: z.base64(),
  }),
  z.object({ type: z.literal('keys'), keys: z.array(keyLink) }),
  unsupported,
])
export type ServerFrame = z.infer<typeof serverFrame>
export const SERVER_FRAMES: ReadonlySet<string> = new Set(
  serverFrame.options.map((option) => option.shape.type.value),
)
export type RejectCode = (typeof REJECT_CODES)[number]
