import { AGENT_ROLES, REFUSALS } from '@tenon/core'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { auditProblems } from '../testing/audit.ts'
import {
  connectAgent,
  finishedFrame,
  manifestOf,
  startedFrame,
  type TestAgent,
  type TestIdentity,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp, ended, workAll } from '../testing/world.ts'

const FRAMES = 10_000
const PER_CONNECTION = 100

let tenant: TestTenant
let agent: TestAgent
let held: { jobId: string; fence: number }[]
let runId: string

beforeAll(async () => {
  tenant = await startTestTenant({ poolSize: 10 })
  await builtApp(tenant)
  agent = await activeInstall(tenant, 'fuzzed')
  const run = await tenant.client.call('deploys.create', { params: { ref: 'fuzzed' }, body: {} })
  runId = run.id
  const ids = run.steps.map((s) => s.jobId).filter((id) => id !== null)
  held = await Promise.all(
    ids.map(async (id) => manifestOf(await agent.next('job.assign', (f) => manifestOf(f).jobId === id))),
  )
})
afterAll(() => tenant.stop())

/** Frames that are almost right: ids that exist with fences that do not, and the other way round. */
function almostRight(identity: TestIdentity) {
  const job = fc.record({
    jobId: fc.constantFrom(...held.map((h) => h.jobId), `job_${'0'.repeat(26)}`),
    fence: fc.constantFrom(2, 7, 2_000_000),
  })
  const text = fc.string({ maxLength: 40, unit: 'binary' })
  const at = fc.constantFrom(new Date(0).toISOString(), '0000-01-01T00:00:00Z', '9999-12-31T23:59:59Z')
  return fc.oneof(
    fc.record({ running: fc.nat(), outboxBytes: fc.nat(), dropped: fc.nat() }).map((more) => ({
      type: 'heartbeat',
      ...more,
    })),
    job.map((j) => ({ type: 'job.accepted', ...j })),
    fc.tuple(job, fc.constantFrom(...REFUSALS), text).map(([j, code, message]) => ({
      type: 'job.refused',
      ...j,
      code,
      message,
    })),
    fc.tuple(job, at, text).map(([j, when, confinement]) => ({
      type: 'job.started',
      ...j,
      at: when,
      confinement,
    })),
    fc.tuple(job, text).map(([j, message]) => ({ type: 'job.progress', ...j, message, fraction: null })),
    fc.tuple(job, fc.nat(5)).map(([j, stream]) => ({ type: 'log.open', stream: stream + 1, ...j })),
    fc.nat(9).map((stream) => ({ type: 'log.end', stream: stream + 1, bytes: 3 })),
    fc.tuple(job, fc.constantFrom('registry', 'join-token')).map(([j, want]) => ({
      type: 'credential.request',
      requestId: 1,
      ...j,
      want,
    })),
    fc.nat(99).map((id) => ({ type: 'secret.stored', secretId: id + 1, ok: true, message: '' })),
    fc.tuple(job, text).map(([j, message]) => finishedFrame(identity, j, { message })),
  )
}

/** Right, mutated and senseless frames, most of them of the first kind so that connections live for a while. */
function frames(identity: TestIdentity): fc.Arbitrary<string | Uint8Array> {
  const right = almostRight(identity).map((frame) => JSON.stringify(frame))
  const mutated = fc
    .tuple(almostRight(identity), fc.string({ maxLength: 12 }), fc.jsonValue())
    .map(([frame, key, value]) => JSON.stringify({ ...frame, [key]: value }))
  const cut = fc.tuple(right, fc.nat(200)).map(([text, at]) => text.slice(0, at))
  const handshake = fc.constantFrom(...AGENT_ROLES).map((role) => JSON.stringify({ type: 'open', role }))
  return fc.oneof(
    { weight: 300, arbitrary: right },
    { weight: 1, arbitrary: mutated },
    { weight: 1, arbitrary: cut },
    { weight: 1, arbitrary: handshake },
    { weight: 1, arbitrary: fc.json() },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
  )
}

it('10,000 frames of any kind leave the server serving and its state sound', async () => {
  const all = fc.sample(frames(agent.identity), { numRuns: FRAMES, seed: 20_261_115 })
  const inventory = held.map(({ jobId, fence }) => ({ jobId, fence, state: 'running' as const }))
  for (const job of held) agent.send(startedFrame(job))
  let sent = 0
  let connections = 0
  while (sent < all.length) {
    const now = agent.isOpen() ? agent : await connectAgent(tenant.url, agent.identity, { inventory })
    agent = now
    connections++
    for (const frame of all.slice(sent, sent + PER_CONNECTION)) {
      if (!now.isOpen()) break
      now.sendRaw(frame)
      sent++
    }
    now.sendRaw('{"type":"heartbeat","running":0,"outboxBytes":0,"dropped":0}')
    const seen = now.frames.length
    await until('an answer', () => !now.isOpen() || now.frames.slice(seen).some(isAnswer))
  }
  expect(connections).toBeGreaterThan(10)
  await tenant.assertSound()

  const back = await connectAgent(tenant.url, agent.identity, { inventory })
  expect(back.welcome.verdicts.map((v) => v.verdict)).toEqual(held.map(() => 'keep'))
  const stop = new AbortController()
  for (const job of held) back.send(finishedFrame(back.identity, job))
  const working = workAll(back, undefined, stop.signal)
  expect((await ended(tenant.client, runId)).status).toBe('succeeded')
  stop.abort()
  await working
  expect(await auditProblems(tenant)).toEqual([])
  await tenant.assertSound()
}, 300_000)

function isAnswer(frame: { type: string }): boolean {
  return frame.type === 'heartbeat.ack' || frame.type === 'reject'
}
