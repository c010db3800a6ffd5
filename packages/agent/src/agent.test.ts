import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { JobManifest, SignedDocument } from '@tenon/core'
import { LOG_WINDOW, MAX_BULK_PAYLOAD } from '@tenon/protocol'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createAgent, type Agent } from './agent.ts'
import type { AgentConfig } from './config.ts'
import { createFakeMemory } from './runtime/fake/store.ts'
import { createFakeRuntime, type FakeRuntime } from './runtime/fake.ts'
import { configOf } from './testing/agent-config.ts'
import { ContractServer, newId } from './testing/contract-server.ts'
import { waitUntil } from './testing/wait-until.ts'

let dir: string
let server: ContractServer
let memory: ReturnType<typeof createFakeMemory>
let runtime: FakeRuntime
let agents: Agent[]

beforeEach(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), 'tenon-agent-'))
  server = await ContractServer.start()
  memory = createFakeMemory()
  agents = []
})

afterEach(async () => {
  for (const agent of agents) await agent.stop()
  await server.close()
  await rm(dir, { recursive: true, force: true })
})

async function startAgent(changes: Partial<AgentConfig> = {}, sessions = 1): Promise<Agent> {
  runtime = createFakeRuntime({ memory })
  const level = process.env['TEST_LOG'] ?? 'silent'
  const agent = createAgent({
    config: configOf(server, dir, changes),
    runtime,
    log: pino({ level }),
    random: () => 0.01,
  })
  agents.push(agent)
  await agent.start()
  if (sessions > 0) await server.session(sessions)
  return agent
}

function changedCopy(manifest: JobManifest): SignedDocument {
  const document = server.sign(manifest)
  return { ...document, text: document.text.replace('"cpus":1', '"cpus":9') }
}

describe('a job', () => {
  it('is accepted, started, logged, reported once and removed', async () => {
    await startAgent()
    const manifest = server.manifest({}, { text: 'hello\n', lines: 3, intervalMs: 5 })
    const { jobId, fence } = manifest
    server.assign(manifest)
    await server.heard('job.accepted', jobId)
    await server.heard('job.started', jobId)
    const { report } = await server.heard('job.finished', jobId)
    const log = 'hello\nline 1\nline 2\nline 3\n'
    expect(report).toMatchObject({ fence, outcome: 'succeeded', reason: 'completed', exitCode: 0 })
    expect(report.logBytes).toBe(log.length)
    expect(server.logs.get(jobId)?.toString()).toBe(log)
    await waitUntil('the removal', () => memory.get(jobId) === undefined)
    expect(server.all('job.finished')).toHaveLength(1)
  })

  it.each([
    [{ exitCode: 3 }, { outcome: 'failed', reason: 'exit', exitCode: 3 }],
    [{ reason: 'oom' }, { outcome: 'failed', reason: 'oom' }],
    [{ startFailure: 'start' }, { outcome: 'failed', reason: 'start', exitCode: null }],
    [{ startFailure: 'image' }, { outcome: 'failed', reason: 'image' }],
    [
      { vanishesAfterMs: 5, untilReleased: true },
      { outcome: 'failed', reason: 'gone' },
    ],
  ])('that ends with %o is reported as %o', async (fake, expected) => {
    await startAgent()
    const manifest = server.manifest({}, fake)
    server.assign(manifest)
    expect((await server.heard('job.finished', manifest.jobId)).report).toMatchObject(expected)
  })

  it('that runs past its limit ends with reason timeout', async () => {
    await startAgent()
    const limits = { ...server.manifest().limits, timeoutSeconds: 1 }
    const manifest = server.manifest({ limits }, { untilReleased: true })
    server.assign(manifest)
    const { report } = await server.heard('job.finished', manifest.jobId)
    expect(report).toMatchObject({ outcome: 'failed', reason: 'timeout' })
  })

  it('is stopped when it is canceled while it runs', async () => {
    await startAgent()
    const manifest = server.manifest({}, { untilReleased: true, stopText: 'bye\n' })
    const { jobId, fence } = manifest
    server.assign(manifest)
    await server.heard('job.started', jobId)
    server.send({ type: 'job.cancel', jobId, fence })
    const { report } = await server.heard('job.finished', jobId)
    expect(report).toMatchObject({ outcome: 'canceled', reason: 'canceled' })
    expect(server.logs.get(jobId)?.toString()).toBe('bye\n')
  })

  it('never starts when it is canceled while it waits for a slot', async () => {
    await startAgent({ slots: 1 })
    const first = server.manifest({}, { untilReleased: true })
    const second = server.manifest()
    server.assign(first)
    await server.heard('job.started', first.jobId)
    server.assign(second)
    await server.heard('job.accepted', second.jobId)
    server.send({ type: 'job.cancel', jobId: second.jobId, fence: second.fence })
    const { report } = await server.heard('job.finished', second.jobId)
    expect(report).toMatchObject({ outcome: 'canceled', reason: 'canceled', startedAt: null })
    runtime.release(first.jobId)
    await server.heard('job.finished', first.jobId)
    expect(server.all('job.started')).toHaveLength(1)
  })

  it('starts once when its assignment is sent again, and is refused after it was settled', async () => {
    await startAgent()
    const manifest = server.manifest({}, { untilReleased: true })
    const { jobId } = manifest
    server.assign(manifest)
    server.assign(manifest)
    await waitUntil('two answers', () => server.all('job.accepted').length === 2)
    await server.heard('job.started', jobId)
    runtime.release(jobId)
    await server.heard('job.finished', jobId)
    await waitUntil('the removal', () => memory.get(jobId) === undefined)
    server.assign(manifest)
    expect(await server.heard('job.refused', jobId)).toMatchObject({ code: 'seen_before' })
    expect(server.all('job.started')).toHaveLength(1)
  })

  it('with a higher fencing number replaces its earlier self, which is never reported', async () => {
    await startAgent()
    const old = server.manifest({}, { untilReleased: true })
    server.assign(old)
    await server.heard('job.started', old.jobId)
    server.assign({ ...server.manifest({}, { exitCode: 7 }), jobId: old.jobId, fence: 2 })
    const { report } = await server.heard('job.finished', old.jobId)
    expect(report).toMatchObject({ fence: 2, exitCode: 7 })
    expect(server.all('job.finished')).toHaveLength(1)
  })

  it('whose log is past the bound is cut there, and the rest is counted and told', async () => {
    await startAgent({ maxLogBytes: 70_000 })
    const manifest = server.manifest({}, { bytes: 100_000 })
    server.assign(manifest)
    const { report } = await server.heard('job.finished', manifest.jobId)
    expect(report.logBytes).toBe(70_000)
    expect(server.logs.get(manifest.jobId)?.byteLength).toBe(70_000)
    await waitUntil('the drop', () =>
      server.all('event').find(({ event }) => event.action === 'agent.dropped'),
    )
    await waitUntil('the count', () => server.all('heartbeat').find(({ dropped }) => dropped === 30_000))
  })

  it('whose log nobody acknowledges stops at the window, and heartbeats go on', async () => {
    server.ackLogs = false
    await startAgent()
    const manifest = server.manifest({}, { bytes: 900_000, untilReleased: true })
    const { jobId } = manifest
    server.assign(manifest)
    const received = () => server.logs.get(jobId)?.byteLength ?? 0
    await waitUntil('a full window', () => received() > LOG_WINDOW - MAX_BULK_PAYLOAD)
    const beats = server.all('heartbeat').length
    await waitUntil('two more heartbeats', () => server.all('heartbeat').length >= beats + 2)
    expect(received()).toBeLessThanOrEqual(LOG_WINDOW)
    expect(server.all('heartbeat').at(-1)?.outboxBytes).toBe(received())
  })

  it('of a large log arrives whole through the window', async () => {
    await startAgent()
    const manifest = server.manifest({}, { bytes: 900_000 })
    server.assign(manifest)
    const { report } = await server.heard('job.finished', manifest.jobId)
    expect(report.logBytes).toBe(900_000)
    expect(server.logs.get(manifest.jobId)?.byteLength).toBe(900_000)
  })
})

const inAYear = (ms: number) => new Date(Date.now() + 365 * 86_400_000 + ms).toISOString()

describe('a refusal', () => {
  it.each([
    ['wrong_install', () => server.manifest({ target: { role: 'install', installId: newId('install') } })],
    ['wrong_server', () => server.manifest({ serverId: 'another' })],
    ['expired', () => server.manifest({ expiresAt: new Date(Date.now() - 400_000).toISOString() })],
    ['not_yet_valid', () => server.manifest({ notBefore: new Date(Date.now() + 400_000).toISOString() })],
    ['too_long_lived', () => server.manifest({ issuedAt: inAYear(0), expiresAt: inAYear(3_600_000) })],
    // What a stolen key would sign: a job that may push, which does the work of another.
    [
      'not_its_kind',
      () => ({ ...server.manifest({ kind: 'sync' }), operations: server.manifest().operations }),
    ],
  ])('is %s', async (code, make) => {
    await startAgent()
    const manifest = make()
    server.assign(manifest)
    expect(await server.heard('job.refused', manifest.jobId)).toMatchObject({ code, fence: manifest.fence })
    expect(memory.ids()).toEqual([])
  })

  it('is bad_signature for one changed byte, and unknown_key for a key nobody vouched for', async () => {
    await startAgent()
    const manifest = server.manifest()
    server.send({ type: 'job.assign', manifest: changedCopy(manifest) })
    expect(await server.heard('job.refused', manifest.jobId)).toMatchObject({ code: 'bad_signature' })
    const other = server.manifest()
    server.send({ type: 'job.assign', manifest: { ...server.sign(other), keyId: newId('key') } })
    expect(await server.heard('job.refused', other.jobId)).toMatchObject({ code: 'unknown_key' })
    expect(memory.ids()).toEqual([])
  })

  it('stays refused when a whole copy of it comes after the changed one, and is asked anew under a new number', async () => {
    await startAgent()
    const manifest = server.manifest()
    const { jobId, fence } = manifest
    server.send({ type: 'job.assign', manifest: changedCopy(manifest) })
    server.assign(manifest)
    await waitUntil('two answers', () => server.all('job.refused').length === 2)
    for (const answer of server.all('job.refused'))
      expect(answer).toMatchObject({ jobId, fence, code: 'bad_signature' })
    expect(memory.ids()).toEqual([])
    server.assign({ ...manifest, fence: fence + 1 })
    expect((await server.heard('job.finished', jobId)).report).toMatchObject({ fence: fence + 1 })
    expect(server.all('job.started')).toHaveLength(1)
  })

  it('is not that of a job which is held and has not begun', async () => {
    await startAgent({ slots: 1 })
    const first = server.manifest({}, { untilReleased: true })
    const second = server.manifest()
    server.assign(first)
    await server.heard('job.started', first.jobId)
    server.assign(second)
    await server.heard('job.accepted', second.jobId)
    server.send({ type: 'job.assign', manifest: changedCopy(second) })
    await waitUntil('the answer to the copy', () => server.all('job.accepted').length === 3)
    runtime.release(first.jobId)
    expect((await server.heard('job.finished', second.jobId)).report).toMatchObject({ outcome: 'succeeded' })
    expect(server.all('job.refused')).toEqual([])
  })
})

describe('after a restart', () => {
  it('a running job is re-attached and reported once, its log without gaps', async () => {
    const first = await startAgent()
    const manifest = server.manifest({}, { text: 'one\n', untilReleased: true, lines: 2 })
    const { jobId } = manifest
    server.assign(manifest)
    await waitUntil('the log', () => server.logs.get(jobId)?.includes('line 2'))
    await first.stop()
    expect(await first.done).toBe(0)
    expect(memory.get(jobId)).toBeDefined()
    await startAgent({}, 2)
    const hellos = server.all('hello')
    expect(hellos[1]!.bootCounter).toBe(hellos[0]!.bootCounter + 1)
    expect(hellos[1]!.inventory).toEqual([{ jobId, fence: 1, state: 'running' }])
    await waitUntil('the event', () =>
      server.all('event').find(({ event }) => event.action === 'agent.reattached'),
    )
    runtime.release(jobId)
    const { report } = await server.heard('job.finished', jobId)
    expect(report).toMatchObject({ outcome: 'succeeded', logBytes: 18 })
    expect(server.logs.get(jobId)?.toString()).toBe('one\nline 1\nline 2\n')
  })

  it('a job whose container vanished is reported gone, and a container nobody knows is swept', async () => {
    const first = await startAgent()
    const manifest = server.manifest({}, { untilReleased: true })
    const { jobId } = manifest
    server.assign(manifest)
    await server.heard('job.started', jobId)
    await first.stop()
    const stranger = newId('job')
    memory.put({ ...memory.get(jobId)!, jobId: stranger })
    memory.delete(jobId)
    await startAgent({}, 2)
    const { report } = await server.heard('job.finished', jobId)
    expect(report).toMatchObject({ outcome: 'failed', reason: 'gone' })
    const swept = () => server.all('event').find(({ event }) => event.action === 'agent.swept')
    expect((await waitUntil('the event', swept)).event.jobId).toBe(stranger)
    expect(memory.ids()).not.toContain(stranger)
  })

  it('a result that the server never settled is delivered again', async () => {
    server.onFrame = (frame) => frame.type === 'job.finished'
    const first = await startAgent()
    const manifest = server.manifest()
    server.assign(manifest)
    const before = await server.heard('job.finished', manifest.jobId)
    await first.stop()
    server.onFrame = undefined
    await startAgent({}, 2)
    await waitUntil('the second report', () => server.all('job.finished').length === 2)
    expect(server.all('job.finished')[1]).toEqual(before)
    await waitUntil('the removal', () => memory.ids().length === 0)
  })
})

describe('a session', () => {
  it('that was cut is opened again; the job goes on and its log has no gap', async () => {
    await startAgent()
    const manifest = server.manifest({}, { lines: 40, intervalMs: 5 })
    const { jobId } = manifest
    server.assign(manifest)
    await waitUntil('some log', () => server.logs.get(jobId)?.includes('line 5\n'))
    server.cut()
    await server.session(2)
    const { report } = await server.heard('job.finished', jobId)
    expect(server.logs.get(jobId)?.byteLength).toBe(report.logBytes)
    expect(server.all('job.started').length).toBeGreaterThan(0)
  })

  it('obeys the verdicts stop and forget', async () => {
    await startAgent()
    const stopped = server.manifest({}, { untilReleased: true })
    const forgotten = server.manifest({}, { untilReleased: true })
    for (const manifest of [stopped, forgotten]) {
      server.assign(manifest)
      await server.heard('job.started', manifest.jobId)
    }
    server.onHello = () => ({
      verdicts: [
        { jobId: stopped.jobId, fence: 1, verdict: 'stop' },
        { jobId: forgotten.jobId, fence: 1, verdict: 'forget' },
      ],
    })
    server.cut()
    const { report } = await server.heard('job.finished', stopped.jobId)
    expect(report).toMatchObject({ outcome: 'canceled' })
    await waitUntil('both removals', () => memory.ids().length === 0)
    expect(server.all('job.finished')).toHaveLength(1)
  })

  it('whose audit head is behind the acknowledged one is reported', async () => {
    const hash = (digit: string) => digit.repeat(64)
    const chain = server.installId!
    server.onHello = () => ({ auditHead: { chain, seq: 5, hash: hash('a') } })
    await startAgent()
    server.onHello = () => ({ auditHead: { chain, seq: 4, hash: hash('b') } })
    server.cut()
    const found = () => server.all('event').find(({ event }) => event.action === 'agent.audit_mismatch')
    const { event } = await waitUntil('the event', found)
    expect(event.details).toMatchObject({ verdict: 'cut', kept: { seq: 5 }, offered: { seq: 4 } })
    expect(server.all('hello').at(-1)?.auditHead).toMatchObject({ seq: 5 })
  })

  it('brings a sealed secret into the install store', async () => {
    await startAgent()
    const hello = await server.heard('hello')
    const { Encrypter } = await import('age-encryption')
    const encrypter = new Encrypter()
    encrypter.addRecipient(hello.recipient!.age)
    const ciphertext = Buffer.from(await encrypter.encrypt('s3cret')).toString('base64')
    server.send({ type: 'secret.deliver', secretId: 1, name: 'db-password', ciphertext })
    server.send({ type: 'secret.deliver', secretId: 2, name: 'db-password', ciphertext: 'AAAA' })
    await waitUntil('both answers', () => server.all('secret.stored').length === 2)
    expect(server.all('secret.stored').map(({ ok }) => ok)).toEqual([true, false])
  })
})

describe('the agent ends', () => {
  it('with 2 without a join token, and with a token that was used', async () => {
    const without = await startAgent({ joinToken: undefined }, 0)
    expect(await without.done).toBe(2)
    server.enrolStatus = 409
    expect(await (await startAgent({}, 0)).done).toBe(2)
  })

  it('with 2 when its folder is in use by another', async () => {
    await startAgent()
    const second = await startAgent({}, 0)
    expect(await second.done).toBe(2)
  })

  it.each([
    ['superseded', 3],
    ['quarantined', 4],
    ['revoked', 4],
  ] as const)('when it is %s, with %i, and its jobs go on', async (code, exit) => {
    const agent = await startAgent()
    const manifest = server.manifest({}, { untilReleased: true })
    server.assign(manifest)
    await server.heard('job.started', manifest.jobId)
    server.send({ type: 'reject', code, message: '' })
    expect(await agent.done).toBe(exit)
    expect(memory.get(manifest.jobId)).toBeDefined()
  })
})
