import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { isSignedBy, signDocument, type JobManifest } from '@tenon/core'
import { agentVerdict } from '@tenon/protocol'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createAgent, type Agent } from '../agent.ts'
import { verify } from '../ground/crypto.ts'
import { withAgent } from '../owner/with-agent.ts'
import { createFakeRuntime } from '../runtime/fake.ts'
import { createFakeMemory } from '../runtime/fake/store.ts'
import { configOf } from '../testing/agent-config.ts'
import { ContractServer } from '../testing/contract-server.ts'
import { waitUntil } from '../testing/wait-until.ts'
import { lastStartOf } from './hold.ts'

const HOUR = 3_600_000

let dir: string
let server: ContractServer
let memory: ReturnType<typeof createFakeMemory>
let agent: Agent | undefined
/** How far the agent's clock is ahead. */
let ahead = 0

beforeEach(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), 'tenon-holds-'))
  server = await ContractServer.start()
  memory = createFakeMemory()
  ahead = 0
})
afterEach(async () => {
  await agent?.stop()
  await server.close()
  await rm(dir, { recursive: true, force: true })
})

async function start(): Promise<void> {
  agent = createAgent({
    config: configOf(server, dir, {}),
    runtime: createFakeRuntime({ memory }),
    log: pino({ level: process.env['TEST_LOG'] ?? 'silent' }),
    random: () => 0.01,
    clock: () => Date.now() + ahead,
  })
  await agent.start()
}

const owner = (word: 'pause' | 'resume') =>
  withAgent(
    {
      dir: path.join(dir, 'agent'),
      storeKeyFile: path.join(dir, 'store.key'),
      clock: Date.now,
      runtime: async () => undefined,
    },
    (access) => access[word](),
  )

function permit({ jobId, fence }: JobManifest, startBeforeMs: number): void {
  const { link, key } = server.current
  const startBefore = new Date(startBeforeMs).toISOString()
  const content = { serverId: server.serverId, jobId, fence, startBefore }
  server.send({ type: 'job.permit', permit: signDocument('job-start/1', content, link.keyId, key.sign) })
}

const away = () => {
  server.onOpen = (socket) => socket.terminate()
  server.cut()
}
const back = () => (server.onOpen = undefined)
/** What came of that kind about a job, told so often. */
const told = (type: 'job.held' | 'job.started', { jobId }: JobManifest, times: number) =>
  waitUntil(`${type} told ${times} times`, () => {
    const all = server.all(type).filter((frame) => frame.jobId === jobId)
    return all.length >= times ? all : undefined
  })

/** A job that the agent holds, since its owner paused it. */
async function held(fake: object = {}): Promise<JobManifest> {
  await start()
  await server.session()
  await owner('pause')
  const manifest = server.manifest({}, fake)
  server.assign(manifest)
  await told('job.held', manifest, 1)
  return manifest
}

const state = (session: number) => server.all('hello')[session - 1]?.inventory[0]?.state

describe('a held job', () => {
  it('that begins is told to the server before its container is there', async () => {
    const manifest = await held({ startDelayMs: 3000 })
    permit(manifest, Date.now() + HOUR)
    await owner('resume')
    const [started] = await told('job.started', manifest, 1)
    expect(started).toMatchObject({ confinement: 'fake: no process runs' })
    expect(memory.ids()).toEqual([])
  })

  it('whose manifest ran out unheard is still held when the server is back, and starts by its word', async () => {
    const manifest = await held()
    away()
    ahead = 2 * HOUR
    await owner('resume')
    back()
    await server.session(2)
    expect(state(2)).toBe('held')
    await told('job.held', manifest, 2)
    expect(server.all('job.started')).toEqual([])
    permit(manifest, Date.now() + 50 * HOUR)
    const { report } = await server.heard('job.finished', manifest.jobId)
    expect(report).toMatchObject({ outcome: 'succeeded' })
  })

  it('that may not start any more does not, and says so when the server withdraws it', async () => {
    const manifest = await held()
    permit(manifest, Date.now() - 1000)
    await owner('resume')
    const { jobId, fence } = manifest
    server.send({ type: 'job.cancel', jobId, fence })
    const { report } = await server.heard('job.finished', jobId)
    expect(report).toMatchObject({ outcome: 'canceled', reason: 'canceled', startedAt: null })
    expect(server.all('job.started')).toEqual([])
  })

  it('starts after a restart of the agent while the server is away', async () => {
    const manifest = await held({ untilReleased: true })
    permit(manifest, Date.now() + HOUR)
    // Answered in one order: the permit is in the journal when this is.
    server.assign(manifest)
    await waitUntil('the answer', () => server.all('job.accepted').length >= 2)
    away()
    await agent?.stop()
    await start()
    await owner('resume')
    await waitUntil('the job', () => memory.ids().includes(manifest.jobId))
    expect(server.sessions).toBe(1)
  })

  it('starts no later than the clocks allow, of a short time it gives up little', () => {
    const since = '2026-11-15T10:00:00.000Z'
    const last = (startBefore: string | null) =>
      new Date(
        lastStartOf(
          { startBefore, held: { since, verdict: { text: '', keyId: '', signature: '' } } },
          { expiresAt: '2026-11-16T10:00:00.000Z' },
          300_000,
        ),
      ).toISOString()
    expect(last('2026-11-22T10:00:00.000Z')).toBe('2026-11-22T09:55:00.000Z')
    expect(last('2026-11-15T10:00:10.000Z')).toBe('2026-11-15T10:00:09.000Z')
    expect(last('2026-11-15T09:00:00.000Z')).toBe('2026-11-15T09:00:00.000Z')
    expect(last(null)).toBe('2026-11-16T10:00:00.000Z')
  })
})

it('a refusal is signed, with its code and the digest of what was refused', async () => {
  await start()
  await server.session()
  const manifest = server.manifest({ serverId: 'another' })
  server.assign(manifest)
  const { verdict } = await server.heard('job.refused', manifest.jobId)
  expect(isSignedBy('agent-verdict/1', verdict!, server.agentPublicKey, verify)).toBe(true)
  const said = agentVerdict.parse(JSON.parse(verdict!.text))
  expect(said).toMatchObject({ answer: 'no', rule: 'wrong_server', jobId: manifest.jobId, fence: 1 })
  expect(said.manifestDigest).toMatch(/^sha256:[0-9a-f]{64}$/)
})
