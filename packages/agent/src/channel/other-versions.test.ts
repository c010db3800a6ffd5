import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { json } from 'node:stream/consumers'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createAgent, type Agent } from '../agent.ts'
import { sha256 } from '../ground/crypto.ts'
import type { JournalEntry } from '../journal/journal-entry.ts'
import { createFakeRuntime, type FakeRuntime } from '../runtime/fake.ts'
import { createFakeMemory } from '../runtime/fake/store.ts'
import type { JobSpec } from '../runtime/runtime.ts'
import { configOf } from '../testing/agent-config.ts'
import { ContractServer } from '../testing/contract-server.ts'
import { waitUntil } from '../testing/wait-until.ts'

let dir: string
let server: ContractServer
let memory: ReturnType<typeof createFakeMemory>
let runtime: FakeRuntime
let agents: Agent[]
let started: JobSpec

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

async function startAgent(sessions: number, slots = 4): Promise<Agent> {
  const fake = createFakeRuntime({ memory })
  const start: FakeRuntime['start'] = (spec) => fake.start((started = spec))
  runtime = { ...fake, start }
  const log = pino({ level: process.env['TEST_LOG'] ?? 'silent' })
  const agent = createAgent({ config: configOf(server, dir, { slots }), runtime, log, random: () => 0.01 })
  agents.push(agent)
  await agent.start()
  await server.session(sessions)
  return agent
}

/** As a later version of the agent would have written it. */
async function rewriteJournal(change: (entry: JournalEntry) => object): Promise<void> {
  const file = path.join(dir, 'agent', 'journal.jsonl')
  const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '')
  const changed = lines.map((line) => {
    const text = JSON.stringify(change(JSON.parse(line.slice(17)) as JournalEntry))
    return `${sha256(Buffer.from(text)).slice(0, 16)} ${text}\n`
  })
  await writeFile(file, changed.join(''))
}

type Signed = { body: { [key: string]: unknown } }

function withManifest(change: (manifest: Signed) => object) {
  return (entry: JournalEntry): object => {
    if (entry.type !== 'accepted') return entry
    const text = JSON.stringify(change(JSON.parse(entry.document.text) as Signed))
    return { ...entry, document: { ...entry.document, text } }
  }
}

const laterManifests: [string, (manifest: Signed) => object][] = [
  [
    'has a kind and a network that are new',
    (m) => ({ ...m, body: { ...m.body, kind: 'scan', network: 'mesh' } }),
  ],
  [
    'has other operations and limits',
    (m) => ({ ...m, body: { ...m.body, operations: {}, limits: [], target: 1 } }),
  ],
  ['has another form', () => ({ version: 7, parts: ['all is new'] })],
]

async function askForManifest({ env, files }: JobSpec): Promise<unknown> {
  const socketPath = env['TENON_JOB_URL']!.slice('unix:'.length)
  const headers = { authorization: `Bearer ${files['token']}` }
  const [response] = (await once(http.get({ socketPath, path: '/v1/manifest', headers }), 'response')) as [
    http.IncomingMessage,
  ]
  return json(response)
}

describe('an agent that is older than the one before it', () => {
  it.each(laterManifests)(
    'watches a running job whose manifest %s, and reports its end',
    async (_, change) => {
      const later = await startAgent(1)
      const manifest = server.manifest({}, { text: 'one\n', untilReleased: true, lines: 2 })
      const { jobId } = manifest
      server.assign(manifest)
      await waitUntil('the log', () => server.logs.get(jobId)?.includes('line 2'))
      await later.stop()
      await rewriteJournal(withManifest(change))
      await startAgent(2)
      expect(server.all('hello')[1]!.inventory).toEqual([{ jobId, fence: 1, state: 'running' }])
      runtime.release(jobId)
      const { report } = await server.heard('job.finished', jobId)
      expect(report).toMatchObject({ outcome: 'succeeded', logBytes: 18 })
      await waitUntil('the removal', () => memory.ids().length === 0)
    },
  )

  it('hands a running job its manifest, in the form that it has', async () => {
    const later = await startAgent(1)
    const manifest = server.manifest({}, { untilReleased: true })
    server.assign(manifest)
    await server.heard('job.started', manifest.jobId)
    await later.stop()
    await rewriteJournal(withManifest(laterManifests[2]![1]))
    await startAgent(2)
    expect(await askForManifest(started)).toEqual({ version: 7, parts: ['all is new'] })
  })

  it('can stop such a job', async () => {
    const later = await startAgent(1)
    const manifest = server.manifest({}, { untilReleased: true })
    const { jobId, fence } = manifest
    server.assign(manifest)
    await server.heard('job.started', jobId)
    await later.stop()
    await rewriteJournal(withManifest(laterManifests[2]![1]))
    await startAgent(2)
    server.send({ type: 'job.cancel', jobId, fence })
    expect((await server.heard('job.finished', jobId)).report).toMatchObject({ outcome: 'canceled' })
  })

  it('delivers the result of such a job', async () => {
    server.onFrame = (frame) => frame.type === 'job.finished'
    const later = await startAgent(1)
    const manifest = server.manifest()
    server.assign(manifest)
    const before = await server.heard('job.finished', manifest.jobId)
    await later.stop()
    await rewriteJournal(withManifest(laterManifests[0]![1]))
    server.onFrame = undefined
    await startAgent(2)
    await waitUntil('the second report', () => server.all('job.finished').length === 2)
    expect(server.all('job.finished')[1]).toEqual(before)
  })

  it('gives back a job that never began, and says so', async () => {
    const later = await startAgent(1, 1)
    const running = server.manifest({}, { untilReleased: true })
    const waiting = server.manifest()
    server.assign(running)
    await server.heard('job.started', running.jobId)
    server.assign(waiting)
    await server.heard('job.accepted', waiting.jobId)
    await later.stop()
    await rewriteJournal(withManifest(laterManifests[0]![1]))
    await startAgent(2, 1)
    expect(server.all('hello')[1]!.inventory).toEqual([{ jobId: running.jobId, fence: 1, state: 'running' }])
    const forgotten = () => server.all('event').find(({ event }) => event.action === 'agent.job_forgotten')
    expect((await waitUntil('the event', forgotten)).event).toMatchObject({
      jobId: waiting.jobId,
      details: { fence: 1 },
    })
    runtime.release(running.jobId)
    await server.heard('job.finished', running.jobId)
    expect(server.all('job.started').map(({ jobId }) => jobId)).not.toContain(waiting.jobId)
  })

  it('reads a journal with entries and fields that it does not know', async () => {
    const later = await startAgent(1)
    const manifest = server.manifest({}, { untilReleased: true })
    const { jobId } = manifest
    server.assign(manifest)
    await server.heard('job.started', jobId)
    await later.stop()
    await rewriteJournal((entry) => ({ ...entry, later: { is: 'better' } }))
    const file = path.join(dir, 'agent', 'journal.jsonl')
    const text = JSON.stringify({ type: 'dreamt', jobId, fence: 1, of: 'sheep' })
    const line = `${sha256(Buffer.from(text)).slice(0, 16)} ${text}\n`
    await writeFile(file, (await readFile(file, 'utf8')) + line)
    await startAgent(2)
    expect(server.all('hello')[1]!.inventory).toEqual([{ jobId, fence: 1, state: 'running' }])
    runtime.release(jobId)
    await server.heard('job.finished', jobId)
  })
})

describe('an agent of a later server', () => {
  it('keeps a job on a verdict that it does not know', async () => {
    await startAgent(1)
    const manifest = server.manifest({}, { untilReleased: true })
    const { jobId } = manifest
    server.assign(manifest)
    await server.heard('job.started', jobId)
    server.onHello = () => ({ verdicts: [{ jobId, fence: 1, verdict: 'ponder' }] })
    server.cut()
    await server.session(2)
    await waitUntil('the job told anew', () => server.all('job.started').length === 2)
    expect(memory.ids()).toEqual([jobId])
    runtime.release(jobId)
    expect((await server.heard('job.finished', jobId)).report).toMatchObject({ outcome: 'succeeded' })
  })

  it('signs which versions it speaks', async () => {
    await startAgent(1)
    const [open] = server.all('open')
    expect(server.all('hello')[0]!.speaks).toEqual(open!.wire)
  })
})
