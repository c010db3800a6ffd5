import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createAgent, type Agent } from '../../agent.ts'
import { lockFolder } from '../../ground/folder-lock.ts'
import { createFakeRuntime } from '../../runtime/fake.ts'
import { openInstallStore } from '../../store/file-store.ts'
import { loadStoreKey } from '../../store/store-key.ts'
import { configOf } from '../../testing/agent-config.ts'
import { ContractServer, newId } from '../../testing/contract-server.ts'
import { runAgentCommand as run, type Ran } from '../../testing/run-command.ts'
import { waitUntil } from '../../testing/wait-until.ts'
import type { AgentStatus } from '../owner-access.ts'

let base: string
let dir: string
let server: ContractServer
let agents: Agent[]

beforeEach(async () => {
  base = await mkdtemp(path.join(os.tmpdir(), 'tenon-commands-'))
  dir = path.join(base, 'agent')
  server = await ContractServer.start()
  agents = []
})
afterEach(async () => {
  for (const agent of agents) await agent.stop()
  await server.close()
  await rm(base, { recursive: true, force: true })
})

function makeAgent(folder: string, storeKeyFile = path.join(folder, 'store.key')): Agent {
  const config = configOf(server, folder, { dir: folder, storeKeyFile })
  const log = pino({ level: 'silent' })
  const agent = createAgent({
    config,
    runtime: createFakeRuntime({ dir: path.join(folder, 'jobs') }),
    log,
    random: () => 0.01,
  })
  agents.push(agent)
  return agent
}

async function startAgent(folder = dir, storeKeyFile?: string): Promise<Agent> {
  const agent = makeAgent(folder, storeKeyFile)
  const sessions = server.sessions + 1
  await agent.start()
  await server.session(sessions)
  return agent
}

const at = (...args: string[]) => [...args, '--dir', dir]
const statusNow = async () => JSON.parse((await run(at('status', '--json'))).stdout) as AgentStatus

/** The events of one kind that the server has heard, each once. */
async function eventsOf(action: string) {
  const found = () => server.all('event').filter(({ event }) => event.action === action)
  await waitUntil(`the event ${action}`, () => found().length > 0)
  return [...new Map(found().map(({ event }) => [event.seq, event])).values()]
}

async function runningJob() {
  const manifest = server.manifest({}, { untilReleased: true, text: 'at work\n' })
  server.assign(manifest)
  await server.heard('job.started', manifest.jobId)
  return manifest
}

/** Each way to ask must work whether the agent runs or not. */
describe.each(['running', 'stopped'] as const)('a %s agent', (life) => {
  async function agentOf(prepare: () => Promise<void> = async () => undefined): Promise<void> {
    const agent = await startAgent()
    await prepare()
    if (life === 'stopped') await agent.stop()
  }

  it('tells its owner who it is, what it holds and what waits', async () => {
    let jobId = ''
    await agentOf(async () => void ({ jobId } = await runningJob()))
    const found = await statusNow()
    expect(found).toMatchObject({
      running: life === 'running',
      agentId: server.agentId,
      role: 'install',
      installId: server.installId,
      server: { id: server.serverId, url: server.url },
      jobs: [{ jobId, kind: 'deploy', component: 'web', state: 'running', stopping: false }],
      outbox: { results: 0, droppedBytes: 0 },
      runtime: { name: 'fake', confinement: 'fake: no process runs' },
      pausedSince: null,
    })
    expect(found.connectedSince === null).toBe(life === 'stopped')
    expect(found.pinnedKeys).toEqual([
      { keyId: server.current.link.keyId, fingerprint: expect.stringMatching(/^[0-9a-f]{64}$/) as string },
    ])
    const { stdout } = await run(at('status'))
    expect(stdout).toMatch(new RegExp(`^state +${life === 'running' ? 'runs as process' : 'stopped'}`, 'm'))
    expect(stdout).toContain(`${jobId}  deploy web  running since`)
  })

  it('takes a secret past the server and lists its name alone', async () => {
    await agentOf()
    expect(await run(at('secret', 'set', 'api-key'), { stdin: 'hidden value\n' })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('secret api-key version 1 is set') as string,
    })
    const listed = await run(at('secret', 'list'))
    expect(listed.stdout).toMatch(/^api-key {2}version 1 {2}set 2/)
    expect(JSON.stringify([listed, await statusNow()])).not.toContain('hidden value')
    for (const agent of agents) await agent.stop()
    expect(await storedSecret('api-key')).toBe('hidden value')
  })

  it('stops a job by its owner’s hand, and the report says whose it was', async () => {
    let jobId = ''
    await agentOf(async () => void ({ jobId } = await runningJob()))
    expect((await run(at('jobs', 'stop', jobId))).code).toBe(0)
    if (life === 'stopped') await startAgent()
    const { report } = await server.heard('job.finished', jobId)
    expect(report).toMatchObject({ outcome: 'canceled', reason: 'canceled' })
    expect(report.message).toMatch(/^The customer stopped the job/)
  })

  it('refuses a job that it does not hold, with 2 and a way on', async () => {
    await agentOf()
    const ran = await run(at('jobs', 'stop', newId('job')))
    expect(ran.code).toBe(2)
    expect(ran.stderr).toMatch(/^error: This agent holds no job .+ \(no_such_job\)\nnext: /)
  })

  it('that is paused holds new jobs, also over a restart, and starts them when it is resumed', async () => {
    await agentOf()
    const { stdout } = await run(at('pause', '--json'))
    const { pausedSince } = JSON.parse(stdout) as { pausedSince: string }
    expect((await run(at('pause'))).stdout).toContain(pausedSince)
    for (const agent of agents) await agent.stop()
    await startAgent()
    const waiting = server.manifest()
    server.assign(waiting)
    const { verdict } = await server.heard('job.held', waiting.jobId)
    expect(JSON.parse(verdict.text)).toMatchObject({
      answer: 'not_now',
      rule: 'pause',
      reason: expect.stringContaining(pausedSince) as string,
    })
    expect((await statusNow()).jobs).toMatchObject([{ jobId: waiting.jobId, state: 'held' }])
    expect((await statusNow()).pausedSince).toBe(pausedSince)
    if (life === 'stopped') await agents.at(-1)!.stop()
    expect((await run(at('resume'))).code).toBe(0)
    if (life === 'stopped') await startAgent()
    const taken = server.manifest()
    server.assign(taken)
    await server.heard('job.finished', taken.jobId)
    await server.heard('job.finished', waiting.jobId)
    expect(await eventsOf('agent.resumed')).toMatchObject([{ details: { pausedSince } }])
    expect(await eventsOf('agent.paused')).toMatchObject([{ details: { since: pausedSince } }])
  })

  it('is given up by its owner’s own word, which the server hears signed', async () => {
    await agentOf()
    expect((await run(at('release'))).stdout).toMatch(/^released at 2/)
    if (life === 'stopped') await startAgent()
    expect(await eventsOf('agent.released')).toHaveLength(1)
  })

  it('tells the audit that a secret was set here, by its name and without its value', async () => {
    await agentOf()
    await run(at('secret', 'set', 'api-key'), { stdin: 'hidden value' })
    if (life === 'stopped') await startAgent()
    expect(await eventsOf('agent.secret_set')).toMatchObject([{ details: { name: 'api-key', version: 1 } }])
    expect(JSON.stringify(server.frames)).not.toContain('hidden value')
  })

  it('is exported to the customer alone, and a new folder is restored from that', async () => {
    await agentOf()
    await run(at('secret', 'set', 'api-key'), { stdin: 'hidden value' })
    const { recipient, identityFile } = await customer()
    const exported = await run(at('export', '--to', recipient))
    expect(exported.code).toBe(0)
    const file = path.join(base, 'store.age')
    await writeFile(file, exported.bytes)
    const fresh = path.join(base, 'fresh')
    const restored = await run(['restore', '--dir', fresh, '--from', file, '--identity-file', identityFile])
    expect(restored).toMatchObject({ code: 0, stdout: expect.stringMatching(/^3 records of/) as string })
    expect(await storedSecret('api-key', fresh)).toBe('hidden value')
    const listed = await run(['secret', 'list', '--dir', fresh])
    expect(listed).toMatchObject({ code: 0, stdout: expect.stringContaining('api-key') as string })
    await startAgent(fresh)
    const again = await run(['restore', '--dir', fresh, '--from', file, '--identity-file', identityFile])
    expect(again.code).not.toBe(0)
  })
})

it('an agent whose store has its key elsewhere is exported without naming that again', async () => {
  const agent = await startAgent(dir, path.join(base, 'keys', 'store.key'))
  const { recipient } = await customer()
  expect(await run(at('export', '--to', recipient))).toMatchObject({ code: 0 })
  await agent.stop()
  expect(await run(at('export', '--to', recipient))).toMatchObject({ code: 0 })
  expect(await run(at('secret', 'list'))).toMatchObject({ code: 0 })
})

describe('the admin socket', () => {
  it('is its owner’s alone, and in another folder than the one jobs are let into', async () => {
    await startAgent()
    const socket = path.join(dir, 'admin', 'admin.sock')
    expect((await stat(socket)).mode & 0o777).toBe(0o600)
    expect((await stat(path.dirname(socket))).mode & 0o777).toBe(0o700)
  })

  it('of a folder that was copied is not the one of the agent it was copied from', async () => {
    const agent = await startAgent()
    await agent.stop()
    const told = JSON.parse(await readFile(path.join(dir, 'last-start.json'), 'utf8')) as object
    const file = path.join(dir, 'last-start.json')
    await writeFile(file, JSON.stringify({ ...told, dir: '/elsewhere' }))
    expect(await statusNow()).toMatchObject({ running: false, server: { url: null } })
  })
})

describe('an agent that starts while a command holds its folder', () => {
  it('waits for the command instead of ending', async () => {
    await (await startAgent()).stop()
    const lock = await lockFolder(dir, 'command')
    const starting = startAgent()
    await waitUntil('the agent to want the folder', () =>
      existsSync(path.join(dir, `agent.lock.${process.pid}`)),
    )
    await lock.release()
    await starting
    expect(await statusNow()).toMatchObject({ running: true, slots: { used: 0, total: 2 } })
  })
})

describe('an export', () => {
  it('is refused to a terminal, over a file that is there, and for no or a wrong recipient', async () => {
    await startAgent()
    const { recipient, identityFile } = await customer()
    const toTerminal = run(at('export', '--to', recipient), { isTTY: true })
    expect(await code(toTerminal)).toBe('output_refused')
    expect(await code(run(at('export', '--to', recipient, '--out', identityFile)))).toBe('output_refused')
    expect(await code(run(at('export')))).toBe('bad_config')
    expect(await code(run(at('export', '--to', 'age1nonsense')))).toBe('export_bad_recipient')
    const out = path.join(base, 'out.age')
    expect((await run(at('export', '--to', recipient, '--out', out))).code).toBe(0)
    expect((await stat(out)).mode & 0o777).toBe(0o600)
  })

  it('of one install does not start an agent of another', async () => {
    await (await startAgent()).stop()
    const { recipient, identityFile } = await customer()
    const out = path.join(base, 'out.age')
    await run(at('export', '--to', recipient, '--out', out))
    const fresh = path.join(base, 'fresh')
    await run(['restore', '--dir', fresh, '--from', out, '--identity-file', identityFile])
    server.installId = newId('install')
    const sessions = server.sessions
    const agent = makeAgent(fresh)
    await agent.start()
    expect(await agent.done).toBe(2)
    expect(server.sessions).toBe(sessions)
  })
})

describe('a command', () => {
  it.each([
    ['status'],
    ['pause'],
    ['resume'],
    ['release'],
    ['rotate-key'],
    ['jobs stop'],
    ['secret set'],
    ['secret list'],
    ['keygen'],
    ['export'],
    ['restore'],
  ])('%s explains itself with examples', async (words) => {
    const ran = await run([...words.split(' '), '--help'])
    expect(ran).toMatchObject({ code: 0, stderr: '' })
    expect(ran.stdout).toMatch(new RegExp(`^Usage: tenon agent ${words}[^]+\nExamples:\n  \\$ `))
    expect((await run(['--help'])).stdout).toContain(`  ${words}`)
  })

  it.each([
    [['status'], 'bad_config', /--dir is needed/],
    [['status', '--dir', '/nowhere'], 'not_enrolled', /holds no agent/],
    [['secret'], 'bad_config', /secret set or secret list/],
    [['pause', 'now'], 'bad_config', /takes no argument now/],
    [['keygen'], 'bad_config', /--out is needed/],
  ])('%j ends with 2 and says what to do', async (args, code, message) => {
    const ran = await run(args)
    expect(ran.code).toBe(2)
    expect(ran.stderr).toContain(`(${code})`)
    expect(ran.stderr).toMatch(message)
    expect(ran.stderr).toMatch(/\nnext: .+\n$/)
  })

  it.each([
    ['', 'empty'],
    ['x'.repeat(70_001), 'more than 68.4 kB'],
  ])('sets no secret out of a bad value', async (stdin, message) => {
    const ran = await run(at('secret', 'set', 'api-key'), { stdin })
    expect(ran).toMatchObject({ code: 2, stderr: expect.stringContaining(message) as string })
    const typed = await run(at('secret', 'set', 'api-key'), { isTTY: true })
    expect(typed.stderr).toContain('Pipe it in')
  })
})

const code = async (ran: Promise<Ran>) => /\((\w+)\)\n/.exec((await ran).stderr)?.[1]

async function customer(): Promise<{ recipient: string; identityFile: string }> {
  const identityFile = path.join(base, 'customer.key')
  const { stdout } = await run(['keygen', '--out', identityFile])
  expect(stdout).toMatch(/^age1[a-z0-9]+\n$/)
  expect((await stat(identityFile)).mode & 0o777).toBe(0o600)
  return { recipient: stdout.trim(), identityFile }
}

async function storedSecret(name: string, folder = dir): Promise<string | undefined> {
  const key = await loadStoreKey({ file: path.join(folder, 'store.key') })
  const store = await openInstallStore({ dir: path.join(folder, 'store'), key })
  try {
    const bytes = await store.get('secret', name)
    return bytes && new TextDecoder().decode(bytes)
  } finally {
    await store.close()
  }
}
