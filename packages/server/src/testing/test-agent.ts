import {
  FEATURE_NAMES,
  isSignedBy,
  keptManifest,
  signDocument,
  signingBytes,
  signText,
  type HeldJob,
  type JobManifest,
  type SigningContext,
} from '@tenon/core'
import {
  serverChallenge,
  parseJoinToken,
  serverFrame,
  WIRE_RANGE,
  type AgentEvent,
  type AgentFrame,
  type AgentHello,
  type AgentVerdict,
  type Enrolled,
  type Enrolment,
  type EnrolRequest,
  type EnrolResponse,
  type JobReport,
  type ServerFrame,
} from '@tenon/protocol'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { generateSigningKey, joinTokenKey, verify, type SigningKey } from '../crypto.ts'
import { until } from './until.ts'

export type Frame<T extends ServerFrame['type']> = Extract<ServerFrame, { type: T }>

export interface TestIdentity {
  agentId: string
  serverId: string
  installId: string | null
  key: SigningKey
  keys: EnrolResponse['keys']
}

/** The agent's end of the channel, in the hands of a test: nothing is answered that the test does not answer. */
export interface TestWire {
  frames: ServerFrame[]
  send(frame: AgentFrame): void
  sendRaw(data: string | Uint8Array): void
  /** The first frame of this kind that was not taken yet. */
  next<T extends ServerFrame['type']>(
    type: T,
    wanted?: (frame: Frame<T>) => boolean,
    timeoutMs?: number,
  ): Promise<Frame<T>>
  isOpen(): boolean
  /** Resolves when the connection is over. */
  ended: Promise<{ code: number }>
  close(): Promise<void>
}

export interface TestAgent extends TestWire {
  identity: TestIdentity
  welcome: Frame<'welcome'>
}

export interface HelloOptions {
  bootCounter?: number
  bootId?: string
  slots?: number
  interactiveSlots?: number
  inventory?: HeldJob[]
  auditHead?: { chain: string; seq: number; hash: string } | null
  recipient?: string | null
  wire?: { min: number; max: number }
  features?: string[]
  /** Signed, of what it speaks; an agent of the version before signed nothing of it. */
  speaks?: { min: number; max: number }
  /** Signs the handshake instead of the identity's own key. */
  signWith?: SigningKey
}

export async function openWire(url: string): Promise<TestWire> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/agent/v1/channel`)
  const frames: ServerFrame[] = []
  const taken = new Set<ServerFrame>()
  socket.on('message', (data: Buffer) => frames.push(serverFrame.parse(JSON.parse(data.toString()))))
  const ended = new Promise<{ code: number }>((resolve) => socket.on('close', (code) => resolve({ code })))
  await once(socket, 'open')
  socket.on('error', () => undefined)
  return {
    frames,
    send: (frame) => socket.send(JSON.stringify(frame)),
    sendRaw: (data) => socket.send(data),
    next: (type, wanted = () => true, timeoutMs = 60_000) =>
      until(
        `a ${type} frame (came: ${frames.map((f) => f.type).join(', ')})`,
        () => {
          const found = frames.find((f) => f.type === type && !taken.has(f) && wanted(f as never))
          if (found) taken.add(found)
          return found as never
        },
        timeoutMs,
      ),
    isOpen: () => socket.readyState === socket.OPEN,
    ended,
    async close() {
      socket.close()
      await ended
    },
  }
}

/** The real handshake: open, the server's signed challenge, hello; then whatever the server says. */
export async function shakeHands(
  wire: TestWire,
  identity: TestIdentity,
  options: HelloOptions = {},
): Promise<Frame<'welcome'> | Frame<'reject'>> {
  const agentNonce = randomBytes(24).toString('base64')
  const { agentId, key } = identity
  wire.send({ type: 'open', wire: options.wire ?? WIRE_RANGE, agentId, nonce: agentNonce })
  const challenge = await until('an answer to open', () =>
    wire.frames.find((f) => f.type === 'challenge' || f.type === 'reject'),
  )
  if (challenge.type !== 'challenge') return challenge as Frame<'reject'>
  const { challenge: signed, keys } = challenge
  const proven = keys.find((link) => link.keyId === signed.keyId)
  if (!proven || !isSignedBy('server-challenge/2', signed, proven.publicKey, verify))
    throw new Error('the challenge is not signed by the server')
  const { serverId, nonce, wire: version } = serverChallenge.parse(JSON.parse(signed.text))
  const bootCounter = options.bootCounter ?? 1
  const bootId = options.bootId ?? 'one start of the test agent'
  const age = options.recipient ?? null
  const hello: AgentHello = {
    agentId,
    agentNonce,
    nonce,
    serverId,
    wire: version,
    features: options.features ?? FEATURE_NAMES,
    ...(options.speaks ? { speaks: options.speaks } : {}),
    bootCounter,
    bootId,
    version: '0.0.0-test',
    runtime: {
      name: 'test',
      confinement: 'none',
      warnings: [],
      capacity: { interactiveSlots: options.interactiveSlots ?? 0, memoryBytes: null, cpus: null },
    },
    slots: options.slots ?? 4,
    inventory: options.inventory ?? [],
    auditHead: options.auditHead ?? null,
    recipient: age
      ? { age, signature: key.sign(signingBytes('agent-recipient/1', { agentId, recipient: age })) }
      : null,
  }
  wire.send({ type: 'hello', hello: signedBy(options.signWith ?? key, 'agent-hello/2', hello) })
  return until('an answer to hello', () =>
    wire.frames.find((f) => f.type === 'welcome' || f.type === 'reject'),
  ) as Promise<Frame<'welcome'> | Frame<'reject'>>
}

export async function connectAgent(
  url: string,
  identity: TestIdentity,
  options: HelloOptions = {},
): Promise<TestAgent> {
  const wire = await openWire(url)
  const welcome = await shakeHands(wire, identity, options)
  if (welcome.type !== 'welcome') throw new Error(`rejected: ${welcome.code}: ${welcome.message}`)
  return { ...wire, identity, welcome }
}

export function enrolRequestOf(
  joinToken: string,
  key: SigningKey,
  changes: Partial<Enrolment> = {},
): EnrolRequest {
  const token = parseJoinToken(joinToken)
  const content: Enrolment = {
    tokenId: token?.id ?? joinToken,
    nonce: randomBytes(32).toString('base64'),
    publicKey: key.publicKey,
    recipient: null,
    version: '0.0.0-test',
    hostname: 'test',
    ...changes,
  }
  return {
    enrolment: signText('agent-enrol/1', content, key.sign),
    tokenSignature: signText('join-token/1', content, joinTokenKey(token?.secret ?? '').sign).signature,
  }
}

export async function postEnrol(url: string, request: object): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${url}/agent/v1/enrol`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request),
  })
  return { status: response.status, body: await response.json() }
}

export async function enrolTestAgent(
  url: string,
  joinToken: string,
  key = generateSigningKey(),
): Promise<TestIdentity> {
  const { status, body } = await postEnrol(url, enrolRequestOf(joinToken, key))
  if (status !== 200) throw new Error(`not enrolled: ${JSON.stringify(body)}`)
  const { enrolled, keys } = body as EnrolResponse
  const { agentId, serverId, installId } = JSON.parse(enrolled.text) as Enrolled
  return { agentId, serverId, installId, keys, key }
}

export function manifestOf(assign: Frame<'job.assign'>): JobManifest {
  return keptManifest(assign.manifest.text)
}

export function finishedFrame(
  identity: TestIdentity,
  job: { jobId: string; fence: number },
  report: Partial<JobReport> = {},
  key = identity.key,
): Extract<AgentFrame, { type: 'job.finished' }> {
  const outcome = report.outcome ?? 'succeeded'
  const whole: JobReport = {
    jobId: job.jobId,
    fence: job.fence,
    agentId: identity.agentId,
    manifestDigest: `sha256:${'0'.repeat(64)}`,
    outcome,
    reason: outcome === 'succeeded' ? 'completed' : outcome === 'canceled' ? 'canceled' : 'exit',
    exitCode: outcome === 'succeeded' ? 0 : 1,
    message: '',
    result: {},
    outputs: {},
    logBytes: 0,
    startedAt: new Date().toISOString(),
    finishedAt: new Date().toISOString(),
    ...report,
  }
  const { jobId, fence } = whole
  return { type: 'job.finished', jobId, fence, report: signedBy(key, 'job-report/1', whole) }
}

export function eventFrame(
  { agentId, key }: Pick<TestIdentity, 'agentId' | 'key'>,
  event: Omit<AgentEvent, 'agentId'>,
): Extract<AgentFrame, { type: 'event' }> {
  return { type: 'event', event: signedBy(key, 'agent-event/1', { ...event, agentId }) }
}

/** The agent's *not now*. */
export function heldFrame(
  { agentId, key }: Pick<TestIdentity, 'agentId' | 'key'>,
  job: { jobId: string; fence: number },
  reason = 'the customer paused this agent',
  changes: Partial<AgentVerdict> = {},
): Extract<AgentFrame, { type: 'job.held' }> {
  const verdict = verdictOf({ agentId, key }, job, { answer: 'not_now', rule: 'pause', reason, ...changes })
  return { type: 'job.held', ...job, verdict }
}

/** The agent's *no*. */
export function refusedFrame(
  identity: Pick<TestIdentity, 'agentId' | 'key'>,
  job: { jobId: string; fence: number },
): Extract<AgentFrame, { type: 'job.refused' }> {
  const [code, message] = ['expired' as const, 'its time is over']
  const verdict = verdictOf(identity, job, { answer: 'no', rule: code, reason: message })
  return { type: 'job.refused', ...job, code, message, verdict }
}

function verdictOf(
  { agentId, key }: Pick<TestIdentity, 'agentId' | 'key'>,
  job: { jobId: string; fence: number },
  said: Partial<AgentVerdict> & Pick<AgentVerdict, 'answer' | 'rule' | 'reason'>,
) {
  const manifestDigest = `sha256:${'0'.repeat(64)}`
  const whole: AgentVerdict = {
    agentId,
    ...job,
    manifestDigest,
    until: null,
    at: new Date().toISOString(),
    ...said,
  }
  return signedBy(key, 'agent-verdict/1', whole)
}

function signedBy(key: SigningKey, context: SigningContext, value: object) {
  return signDocument(context, value, 'a-key-of-the-test', key.sign)
}

export function startedFrame(job: { jobId: string; fence: number }): AgentFrame {
  return {
    type: 'job.started',
    jobId: job.jobId,
    fence: job.fence,
    at: new Date().toISOString(),
    confinement: 'none',
  }
}
