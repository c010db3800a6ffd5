import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createAgent, type Agent } from '../agent.ts'
import { createFakeRuntime } from '../runtime/fake.ts'
import { configOf } from '../testing/agent-config.ts'
import { ContractServer } from '../testing/contract-server.ts'
import { waitUntil } from '../testing/wait-until.ts'

const HOUR = 3_600_000
let dir: string
let server: ContractServer
let agents: Agent[]
/** How far the agent's clock is ahead of ours. */
let ahead: number

beforeEach(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), 'tenon-server-keys-'))
  server = await ContractServer.start()
  agents = []
  ahead = 0
})
afterEach(async () => {
  for (const agent of agents) await agent.stop()
  await server.close()
  await rm(dir, { recursive: true, force: true })
})

async function startAgent(): Promise<Agent> {
  const agent = createAgent({
    config: configOf(server, dir, {}),
    runtime: createFakeRuntime({}),
    log: pino({ level: 'silent' }),
    clock: () => Date.now() + ahead,
    random: () => 0.01,
  })
  agents.push(agent)
  const sessions = server.sessions + 1
  await agent.start()
  await server.session(sessions)
  return agent
}

/** What becomes of a job that the server's key of that number signs now, by the agent's clock. */
async function answerTo(number: number): Promise<string> {
  const at = (ms: number) => new Date(Date.now() + ahead + ms).toISOString()
  const times = { issuedAt: at(0), notBefore: at(0), expiresAt: at(HOUR) }
  const manifest = server.manifest(times, {})
  server.send({ type: 'job.assign', manifest: server.sign(manifest, server.keys[number]) })
  return waitUntil('the answer', () => {
    const refused = server.all('job.refused').find(({ jobId }) => jobId === manifest.jobId)
    if (refused) return refused.code
    return server.all('job.accepted').some(({ jobId }) => jobId === manifest.jobId) ? 'accepted' : undefined
  })
}

const sendKeys = () => server.send({ type: 'keys', keys: server.keys.map(({ link }) => link) })

describe('a key of the server that was rotated', () => {
  it('starts nothing more once its grace is over, in the session that heard of it', async () => {
    await startAgent()
    server.rotateKey()
    sendKeys()
    expect(await answerTo(1)).toBe('accepted')
    expect(await answerTo(0)).toBe('accepted')
    ahead = 25 * HOUR
    expect(await answerTo(0)).toBe('unknown_key')
    expect(await answerTo(1)).toBe('accepted')
  })

  it('stays ended over restarts, when its links come without their ends, and when the clock goes back', async () => {
    const agent = await startAgent()
    server.rotateKey()
    sendKeys()
    expect(await answerTo(1)).toBe('accepted')
    await agent.stop()
    for (const { link } of server.keys) delete link.previousEnd
    ahead = 25 * HOUR
    const again = await startAgent()
    expect(await answerTo(0)).toBe('unknown_key')
    await again.stop()
    ahead = 0
    await startAgent()
    expect(await answerTo(0)).toBe('unknown_key')
    expect(await answerTo(1)).toBe('accepted')
  })

  it('is told at connect to an agent that was away, and proves no server any more', async () => {
    const agent = await startAgent()
    await agent.stop()
    server.rotateKey()
    ahead = 25 * HOUR
    await (await startAgent()).stop()
    ahead = 50 * HOUR
    const hellos = server.all('hello').length
    const opens = server.all('open').length
    server.onOpen = (socket, { nonce }) => server.challenge(socket, nonce, 'AAAA', server.keys[0])
    const last = createAgent({
      config: configOf(server, dir, {}),
      runtime: createFakeRuntime({}),
      log: pino({ level: 'silent' }),
      clock: () => Date.now() + ahead,
      random: () => 0.01,
    })
    agents.push(last)
    await last.start()
    await waitUntil('three tries', () => server.all('open').length >= opens + 3)
    expect(server.all('hello')).toHaveLength(hellos)
    server.onOpen = undefined
    await server.session(server.sessions + 1)
  })

  it('proves no server to an agent that enrolled after its end, and never met it', async () => {
    server.rotateKey()
    ahead = 25 * HOUR
    const hellos = server.all('hello').length
    server.onOpen = (socket, { nonce }) => {
      const later = server.keys.splice(1)
      server.challenge(socket, nonce, 'AAAA', server.keys[0])
      server.keys.push(...later)
    }
    const agent = createAgent({
      config: configOf(server, dir, {}),
      runtime: createFakeRuntime({}),
      log: pino({ level: 'silent' }),
      clock: () => Date.now() + ahead,
      random: () => 0.01,
    })
    agents.push(agent)
    await agent.start()
    await waitUntil('three tries', () => server.all('open').length >= 3)
    expect(server.all('hello')).toHaveLength(hellos)
    server.onOpen = undefined
    await server.session(1)
    expect(await answerTo(0)).toBe('unknown_key')
    expect(await answerTo(1)).toBe('accepted')
  })

  it('vouches for no other key from the moment its end is known', async () => {
    await startAgent()
    server.rotateKey()
    sendKeys()
    expect(await answerTo(1)).toBe('accepted')
    const [root, second] = server.keys.splice(0)
    server.keys.push(root!)
    server.rotateKey()
    const forked = server.keys.pop()!
    server.keys.push(second!, forked)
    sendKeys()
    expect(await answerTo(2)).toBe('unknown_key')
    server.keys.pop()
  })

  it('counts on where the server is older and says no ends', async () => {
    await startAgent()
    server.saysEnds = false
    server.rotateKey()
    sendKeys()
    ahead = 25 * HOUR
    expect(await answerTo(1)).toBe('accepted')
    expect(await answerTo(0)).toBe('accepted')
  })

  it('is the only one that ends: the newest counts however far the clock jumps', async () => {
    await startAgent()
    ahead = 10 * 365 * 24 * HOUR
    expect(await answerTo(0)).toBe('accepted')
    server.rotateKey()
    sendKeys()
    expect(await answerTo(1)).toBe('accepted')
    ahead = 0
    expect(await answerTo(1)).toBe('accepted')
  })
})
