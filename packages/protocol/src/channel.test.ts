import { REFUSALS } from '@tenon/core'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { agentFrame, jobReport, serverFrame, type AgentFrame, type ServerFrame } from './channel.ts'
import { MAX_JSON_DEPTH } from './scalars.ts'

const AT = '2026-11-15T12:00:00.000Z'
const ID = `job_${'0'.repeat(26)}`
const DIGEST = `sha256:${'a'.repeat(64)}`
const B64 = 'AAAA'
const job = { jobId: ID, fence: 1 }
const auditHead = { chain: 'server', seq: 3, hash: 'f'.repeat(64) }
const keys = [{ keyId: ID, publicKey: B64, signedBy: null, signature: null }]
const report = {
  ...job,
  agentId: ID,
  manifestDigest: DIGEST,
  outcome: 'failed' as const,
  reason: 'exit',
  exitCode: 1,
  message: 'it failed',
  result: { deep: [{ er: null }] },
  outputs: { url: { sensitive: false, value: 'http://x' }, password: { sensitive: true } },
  logBytes: 10,
  startedAt: AT,
  finishedAt: AT,
}
const signed = { text: '{}', keyId: ID, signature: B64 }

const agentFrames: { [T in AgentFrame['type']]: Extract<AgentFrame, { type: T }> } = {
  open: { type: 'open', wire: { min: 2, max: 3 }, agentId: ID, nonce: B64 },
  hello: { type: 'hello', hello: signed },
  heartbeat: { type: 'heartbeat', running: 0, outboxBytes: 0, dropped: 0 },
  'job.accepted': { type: 'job.accepted', ...job },
  'job.refused': { type: 'job.refused', ...job, code: REFUSALS[0], message: 'no' },
  'job.started': { type: 'job.started', ...job, at: AT, confinement: 'none' },
  'job.progress': { type: 'job.progress', ...job, message: 'half', fraction: 0.5 },
  'job.finished': { type: 'job.finished', ...job, report: signed },
  'log.open': { type: 'log.open', stream: 1, ...job },
  'log.end': { type: 'log.end', stream: 1, bytes: 0 },
  event: { type: 'event', event: signed },
  'credential.request': { type: 'credential.request', requestId: 1, ...job, want: 'registry' },
  'secret.stored': { type: 'secret.stored', secretId: 1, ok: true, message: '' },
  'job.held': { type: 'job.held', ...job, verdict: signed },
  unsupported: { type: 'unsupported', frame: 'job.new', code: 'unknown_frame', message: 'no' },
}

const serverFrames: { [T in ServerFrame['type']]: Extract<ServerFrame, { type: T }> } = {
  challenge: { type: 'challenge', challenge: signed, keys },
  welcome: {
    type: 'welcome',
    sessionId: ID,
    heartbeatSeconds: 5,
    leaseSeconds: 30,
    verdicts: [{ ...job, verdict: 'keep' }],
    auditHead: null,
    eventSeq: 0,
    at: AT,
  },
  reject: { type: 'reject', code: 'superseded', message: 'a newer one is here' },
  'job.assign': { type: 'job.assign', manifest: { text: '{}', keyId: ID, signature: B64 } },
  'job.cancel': { type: 'job.cancel', ...job },
  'job.permit': { type: 'job.permit', permit: signed },
  'job.settled': { type: 'job.settled', ...job, auditHead },
  'heartbeat.ack': { type: 'heartbeat.ack', at: AT },
  'log.ack': { type: 'log.ack', stream: 1, offset: 0 },
  'event.ack': { type: 'event.ack', seq: 1, auditHead: null },
  'credential.grant': {
    type: 'credential.grant',
    requestId: 1,
    credential: {
      want: 'registry',
      registry: '/v2/',
      bearer: 'b',
      repositories: [{ name: 'apps/hello', actions: ['pull'] }],
      expiresAt: AT,
    },
  },
  'credential.refused': { type: 'credential.refused', requestId: 1, message: 'no' },
  'secret.deliver': { type: 'secret.deliver', secretId: 1, name: 'password', ciphertext: B64 },
  keys: { type: 'keys', keys },
  unsupported: { type: 'unsupported', frame: 'job.new', code: 'unknown_frame', message: 'no' },
}

const overTheWire = (frame: unknown): unknown => JSON.parse(JSON.stringify(frame))

describe.each(Object.entries(agentFrames))('an agent’s %s frame', (_, frame) => {
  it('arrives as it was sent, also from a newer agent that says more', () => {
    expect(agentFrame.parse(overTheWire(frame))).toEqual(frame)
    expect(agentFrame.parse({ ...frame, newer: 1 })).toEqual(frame)
  })

  it('is refused with a field too few', () => {
    for (const field of Object.keys(frame)) {
      expect(agentFrame.safeParse({ ...frame, [field]: undefined }).success).toBe(false)
    }
  })
})

describe.each(Object.entries(serverFrames))('a server’s %s frame', (_, frame) => {
  it('arrives as it was sent, also from a newer server that says more', () => {
    expect(serverFrame.parse(overTheWire(frame))).toEqual(frame)
    expect(serverFrame.parse({ ...frame, newer: 1 })).toEqual(frame)
  })
})

describe('frames from outside', () => {
  it('never make the schema throw, whatever they are', () => {
    const types = fc.constantFrom(...Object.keys(agentFrames))
    const anything = fc.oneof(
      fc.anything(),
      fc.record({ type: types }, { requiredKeys: [] }),
      fc
        .tuple(types, fc.dictionary(fc.string(), fc.jsonValue()))
        .map(([type, more]) => ({ ...agentFrames[type as AgentFrame['type']], ...more })),
    )
    fc.assert(
      fc.property(anything, (frame) => {
        expect(typeof agentFrame.safeParse(frame).success).toBe('boolean')
        expect(typeof serverFrame.safeParse(frame).success).toBe('boolean')
      }),
    )
  })

  it('may not nest without bound', () => {
    const nested = (depth: number): unknown => JSON.parse('['.repeat(depth) + ']'.repeat(depth))
    const finished = (value: unknown) => jobReport.safeParse({ ...report, result: { value } }).success
    expect(finished(nested(MAX_JSON_DEPTH))).toBe(true)
    expect(finished(nested(MAX_JSON_DEPTH + 1))).toBe(false)
    expect(finished(nested(400_000))).toBe(false)
    const outputs = { x: { sensitive: false, value: nested(400_000) } }
    expect(jobReport.safeParse({ ...report, outputs }).success).toBe(false)
  })

  it('keep no character that Postgres or a canonical form cannot hold; the words of a job are cut, not refused', () => {
    const parsed = jobReport.parse({
      ...report,
      message: `\0\uD800${'😀'.repeat(2000)}`,
      result: { 'k\0': ['\uDC00', { a: '\0' }] },
      outputs: { x: { sensitive: false, value: 'a\0' } },
    })
    expect(JSON.stringify(parsed)).not.toMatch(/\\u0000|\\ud8|\\udc/)
    expect(parsed).toMatchObject({
      message: expect.stringMatching(/^\uFFFD\uFFFD😀.*…$/u) as unknown,
      result: { 'k\uFFFD': ['\uFFFD', { a: '\uFFFD' }] },
      outputs: { x: { value: 'a\uFFFD' } },
    })
    expect(jobReport.parse(parsed)).toEqual(parsed)
  })

  it('carry ids, digests and names of their own form only', () => {
    const accepted = (jobId: unknown, fence: unknown) =>
      agentFrame.safeParse({ type: 'job.accepted', jobId, fence }).success
    expect(accepted(ID, 1)).toBe(true)
    for (const id of ['', '../x', "' or 1=1", `${ID}\n`, ID.toUpperCase(), 7])
      expect(accepted(id, 1)).toBe(false)
    for (const fence of [0, -1, 1.5, 2 ** 60, '1']) expect(accepted(ID, fence)).toBe(false)
  })
})
