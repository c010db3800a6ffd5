import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createAgent, type Agent } from '../agent.ts'
import type { AgentConfig } from '../config.ts'
import { loadSigningKey } from '../ground/crypto.ts'
import { createFakeRuntime } from '../runtime/fake.ts'
import { configOf } from '../testing/agent-config.ts'
import { ContractServer } from '../testing/contract-server.ts'
import { runAgentCommand } from '../testing/run-command.ts'
import { waitUntil } from '../testing/wait-until.ts'
import { bootIdentity, makeNextKey } from './identity.ts'

let server: ContractServer
let base: string
let dir: string
let agents: Agent[]

beforeEach(async () => {
  server = await ContractServer.start()
  base = await mkdtemp(path.join(os.tmpdir(), 'tenon-rotation-'))
  dir = path.join(base, 'agent')
  agents = []
})
afterEach(async () => {
  for (const agent of agents) await agent.stop()
  await server.close()
  await rm(base, { recursive: true, force: true })
})

async function startAgent(changes: Partial<AgentConfig> = {}): Promise<Agent> {
  const agent = createAgent({
    config: { ...configOf(server, base, changes), dir },
    runtime: createFakeRuntime({ dir: path.join(base, 'jobs') }),
    log: pino({ level: 'silent' }),
    random: () => 0.01,
  })
  agents.push(agent)
  const sessions = server.sessions + 1
  await agent.start()
  await server.session(sessions)
  return agent
}

const keyOf = async () => loadSigningKey(await readFile(path.join(dir, 'agent.key'), 'utf8')).publicKey
const rotate = () => runAgentCommand(['rotate-key', '--dir', dir])
const rotations = () => server.all('event').filter(({ event }) => event.action === 'agent.key_rotated')

describe('an agent’s key', () => {
  it('is changed on demand: the next session is signed by the new one, and the change is told', async () => {
    await startAgent()
    const before = await keyOf()
    const sessions = server.sessions
    expect((await rotate()).stdout).toMatch(/^the key of this agent is now [0-9a-f]{64}$/m)
    await server.session(sessions + 1)
    expect(await keyOf()).toBe(server.agentPublicKey)
    expect(server.agentPublicKey).not.toBe(before)
    await waitUntil('the event', () => rotations().length > 0)
    expect(await readdir(dir)).not.toContain('agent.key.next')
  })

  it('is changed once by many who ask at the same time, and is the one that the server accepted', async () => {
    const agent = await startAgent()
    const answers = await Promise.all([rotate(), rotate(), rotate(), rotate()])
    expect(answers.map(({ code }) => code)).toEqual([0, 0, 0, 0])
    expect(await keyOf()).toBe(server.agentPublicKey)
    await agent.stop()
    await startAgent()
  })

  it('is changed when it has its age', async () => {
    const agent = await startAgent()
    const before = await keyOf()
    await agent.stop()
    await startAgent({ maxKeyAgeMs: 1 })
    expect(await keyOf()).not.toBe(before)
    expect(await keyOf()).toBe(server.agentPublicKey)
  })

  it('that is changed while the agent is stopped counts from its next start on', async () => {
    const agent = await startAgent()
    const before = await keyOf()
    await agent.stop()
    expect((await rotate()).stdout).toMatch(/^the new key [0-9a-f]{64} is made/)
    expect(await keyOf()).toBe(before)
    await startAgent()
    expect(await keyOf()).not.toBe(before)
  })

  it('stays when the server’s word for the new one is not signed for it', async () => {
    await startAgent()
    const before = await keyOf()
    server.keyAnswer = 'none'
    expect((await rotate()).code).toBe(0)
    server.keyAnswer = 'given'
    server.keyAcceptedAs = { publicKey: before }
    expect((await rotate()).stdout).toMatch(/is made/)
    expect(await keyOf()).toBe(before)
    expect(await readdir(dir)).toContain('agent.key.next')
  })

  it('opens what the journal holds of earlier given secrets, whatever key comes later', async () => {
    await (await startAgent()).stop()
    const before = (await bootIdentity(dir))!
    const { publicKey } = before.key
    await before.takeNextKey(await before.makeNextKey())
    const after = (await bootIdentity(dir))!
    expect(after.key.publicKey).not.toBe(publicKey)
    expect(after.journalKey).toEqual(before.journalKey)
    await after.takeNextKey(await after.makeNextKey())
    expect((await bootIdentity(dir))!.journalKey).toEqual(before.journalKey)
  })
})

/** Each is what a kill leaves between two writes of the agent or the server. */
describe('an agent that was killed while its key changed', () => {
  it.each([
    ['before the server heard of the new key', 'given', false],
    ['after the server took it, before the agent heard so', 'lost', true],
  ] as const)('%s: connects again, with the new key', async (_, answer, taken) => {
    const agent = await startAgent()
    const before = await keyOf()
    server.keyAnswer = answer
    if (taken) await rotate()
    await agent.stop()
    if (!taken) await makeNextKey(dir)
    expect(await keyOf()).toBe(before)
    expect(server.agentPublicKey === before).toBe(!taken)
    server.keyAnswer = 'given'
    await startAgent()
    expect(await keyOf()).not.toBe(before)
    expect(await keyOf()).toBe(server.agentPublicKey)
    await waitUntil('the event', () => rotations().length > 0)
  })

  it('and whose server is away just then: connects with the key before as long as that counts', async () => {
    const agent = await startAgent()
    const before = await keyOf()
    await agent.stop()
    await makeNextKey(dir)
    server.keyAnswer = 'none'
    await startAgent()
    expect(await keyOf()).toBe(before)
  })

  it('right before the new key was there: has lost nothing', async () => {
    const agent = await startAgent()
    const before = await keyOf()
    await agent.stop()
    await makeNextKey(dir)
    await rm(path.join(dir, 'agent.key.next'))
    await startAgent()
    expect(await keyOf()).toBe(before)
  })
})
