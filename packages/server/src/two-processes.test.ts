import { extendPinnedKeys, learnKeys, type JobManifest } from '@tenon/core'
import { createClient } from '@tenon/protocol'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { generateSigningKey, verify } from './crypto.ts'
import { startRelay } from './testing/relay.ts'
import { bundleServer } from './testing/server-program.ts'
import {
  connectAgent,
  enrolRequestOf,
  finishedFrame,
  manifestOf,
  postEnrol,
  startedFrame,
  type TestAgent,
} from './testing/test-agent.ts'
import { startTestTenant, type TestServer, type TestTenant } from './testing/test-server.ts'
import { until } from './testing/until.ts'
import { activeInstall, builtApp, ended, workAll } from './testing/world.ts'

let a: TestTenant
let b: TestServer
let agent: TestAgent

beforeAll(async () => {
  a = await startTestTenant()
  b = await a.another()
  await builtApp(a)
  agent = await activeInstall(a, 'shared')
})
afterAll(() => a.stop())
afterEach(async () => {
  await a.assertSound()
  await b.assertSound()
})

const deployOn = (server: TestServer, components = ['db']) =>
  server.client.call('deploys.create', { params: { ref: 'shared' }, body: { components } })

async function finishRun(on: TestAgent, runId: string, taken?: JobManifest): Promise<string> {
  if (taken) on.send(finishedFrame(on.identity, taken))
  const stop = new AbortController()
  const working = workAll(on, undefined, stop.signal)
  const { status } = await ended(b.client, runId)
  stop.abort()
  await working
  return status
}

async function assignOf(on: TestAgent, jobId: string) {
  return manifestOf(await on.next('job.assign', (f) => manifestOf(f).jobId === jobId))
}

describe('two processes over one database', () => {
  it('are one server: the same id, the same keys, one owner', async () => {
    const [one, two] = await Promise.all([a.client.call('server.info', {}), b.client.call('server.info', {})])
    expect([two.serverId, two.keys]).toEqual([one.serverId, one.keys])
    expect(b.server.ownerToken).toBeUndefined()
  })

  it('an agent on one gets a job made on the other, which tells it', async () => {
    let isTold = false
    const off = a.context.hub.on(`pool:install:${agent.identity.installId}`, () => (isTold = true))
    const run = await deployOn(b)
    const job = await assignOf(agent, run.steps[0]!.jobId!)
    await until('the hint', () => isTold)
    off()
    expect(await finishRun(agent, run.id, job)).toBe('succeeded')
  })

  it('also when the hints are lost: the poll finds it', async () => {
    // Without its listening connections no process hears another; each dies again while the test waits.
    const deaf = setInterval(() => void silence(), 100)
    const silence = async () =>
      a.context.pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'tenon-hints' and datname = current_database()`,
      )
    try {
      await silence()
      const run = await deployOn(b)
      const job = await assignOf(agent, run.steps[0]!.jobId!)
      expect(await finishRun(agent, run.id, job)).toBe('succeeded')
    } finally {
      clearInterval(deaf)
    }
    await until('listening again', async () => {
      const { rows } = await a.context.pool.query(
        `select count(*)::int as n from pg_stat_activity where application_name = 'tenon-hints' and datname = current_database()`,
      )
      return rows[0].n === 2
    })
  })

  it('a cancel on one reaches an agent on the other', async () => {
    const run = await deployOn(a)
    const job = await assignOf(agent, run.steps[0]!.jobId!)
    agent.send(startedFrame(job))
    await b.client.call('runs.cancel', { params: { id: run.id } })
    expect(await agent.next('job.cancel', (f) => f.jobId === job.jobId)).toMatchObject({ fence: job.fence })
    agent.send(finishedFrame(agent.identity, job, { outcome: 'canceled' }))
    expect((await ended(b.client, run.id)).status).toBe('canceled')
  })

  it('a run on one is watched on the other, change by change', async () => {
    const run = await deployOn(a)
    const response = await b.client.call('runs.watch', { params: { id: run.id } })
    const finished = finishRun(agent, run.id)
    const text = await response.text()
    const seen = [...text.matchAll(/^data: (.*)$/gm)].map(
      ([, data]) => JSON.parse(data!) as { status: string },
    )
    expect(await finished).toBe('succeeded')
    expect(seen.length).toBeGreaterThan(1)
    expect([seen[0]!.status, seen.at(-1)!.status]).toEqual(['active', 'succeeded'])
  })

  it('an agent that moves keeps its jobs, and the old connection ends', async () => {
    const run = await deployOn(a)
    const job = await assignOf(agent, run.steps[0]!.jobId!)
    agent.send(startedFrame(job))
    const inventory = [{ jobId: job.jobId, fence: job.fence, state: 'running' as const }]
    const moved = await connectAgent(b.url, agent.identity, { inventory })
    expect(await agent.next('reject')).toMatchObject({ code: 'superseded' })
    expect(moved.welcome.verdicts).toMatchObject([{ jobId: job.jobId, verdict: 'keep' }])
    expect(await finishRun(moved, run.id, job)).toBe('succeeded')
    await moved.close()
    agent = await connectAgent(a.url, agent.identity)
  })

  it('a key made on one signs on the other, and agents of both hear of it first', async () => {
    const before = (await a.client.call('server.info', {})).keys
    const { keys } = await b.client.call('keys.rotate', {})
    const heard = await agent.next('keys')
    expect(heard.keys).toEqual(keys)
    const run = await deployOn(a)
    const job = await assignOf(agent, run.steps[0]!.jobId!)
    const { keyId } = await a.client.call('jobs.manifest', { params: { id: job.jobId } })
    expect(keyId).toBe(keys.at(-1)!.keyId)
    const pinned = new Map(before.map((link) => [link.keyId, link.publicKey]))
    expect([...extendPinnedKeys(pinned, heard.keys, verify).keys()]).toContain(keyId)
    // Also an agent that heard of it from the other process knows that the key before it has ended.
    const known = learnKeys({ pinned, ended: new Map() }, heard.keys, verify, Date.now())
    expect([...known.ended.keys()]).toEqual([keys.at(-1)!.signedBy])
    const order = agent.frames.map((f) => f.type)
    expect(order.lastIndexOf('keys')).toBeLessThan(order.lastIndexOf('job.assign'))
    expect(await finishRun(agent, run.id, job)).toBe('succeeded')
  })

  it('a join token works once though it is shown to both at the same time', async () => {
    const { joinToken } = await a.client.call('agents.joinToken', { body: { role: 'build' } })
    const answers = await Promise.all(
      [a, b, a, b].map(({ url }) => postEnrol(url, enrolRequestOf(joinToken, generateSigningKey()))),
    )
    expect(answers.map((answer) => answer.status).toSorted()).toEqual([200, 409, 409, 409])
  })

  it('a process that another took for dead is believed again when its agents are heard', async () => {
    await a.context.db
      .updateTable('agent')
      .set({ session_id: null, process_id: null })
      .where('id', '=', agent.identity.agentId)
      .execute()
    agent.send({ type: 'heartbeat', running: 0, outboxBytes: 0, dropped: 0 })
    const connected = await until('connected', async () => {
      const { agent: shown } = await b.client.call('installs.get', { params: { ref: 'shared' } })
      return shown?.connected
    })
    expect(connected).toBe(true)
  })
})

describe('a process that is killed', () => {
  let program: string
  let child: ChildProcess
  let url: string
  beforeAll(async () => {
    program = await bundleServer(a.config.dataDir)
    await agent.close()
  })
  beforeEach(async () => {
    const keyFile = join(a.config.dataDir, 'copy.key')
    writeFileSync(keyFile, Buffer.from(a.config.masterKey).toString('base64'))
    child = spawn(process.execPath, [program], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        PATH: process.env['PATH'],
        DATABASE_URL: a.database.url,
        TENON_DATA_DIR: a.config.dataDir,
        TENON_MASTER_KEY_FILE: keyFile,
        TENON_PLUGINS_DIR: a.config.pluginsDir,
        TENON_PORT: '0',
        TENON_LOG_LEVEL: 'error',
      },
    })
    const [line] = (await once(createInterface(child.stdout!), 'line')) as [string]
    url = (JSON.parse(line) as { url: string }).url
  })
  afterEach(() => void child.kill('SIGKILL'))

  const deployOnChild = () => deployOn({ ...b, client: createClient({ url, token: a.ownerToken }) })
  const statusOf = async (id: string) => (await b.client.call('jobs.get', { params: { id } })).status

  it('lets its agents move on with what they run', async () => {
    const onChild = await connectAgent(url, agent.identity)
    const run = await deployOnChild()
    const job = await assignOf(onChild, run.steps[0]!.jobId!)
    onChild.send(startedFrame(job))
    await until('running', async () => (await statusOf(job.jobId)) === 'running')
    child.kill('SIGKILL')
    await onChild.ended
    const inventory = [{ jobId: job.jobId, fence: job.fence, state: 'finished' as const }]
    const moved = await connectAgent(b.url, agent.identity, { inventory })
    expect(await finishRun(moved, run.id, job)).toBe('succeeded')
    await moved.close()
  })

  it('between giving a job and telling its agent loses nothing: the next process gives it anew', async () => {
    const line = await startRelay(url)
    const onChild = await connectAgent(new URL(line.url).origin, agent.identity)
    line.stall()
    const run = await deployOnChild()
    const jobId = run.steps[0]!.jobId!
    await until('given', async () => (await statusOf(jobId)) === 'assigned')
    child.kill('SIGKILL')
    await line.close()
    await onChild.ended
    expect(onChild.frames.filter((frame) => frame.type === 'job.assign')).toEqual([])
    const moved = await connectAgent(b.url, agent.identity)
    const job = await assignOf(moved, jobId)
    expect(job.fence).toBe(2)
    expect(await finishRun(moved, run.id, job)).toBe('succeeded')
    await moved.close()
  })
})
