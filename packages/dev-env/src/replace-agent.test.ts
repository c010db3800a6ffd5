import { parseJoinToken } from '@tenon/protocol'
import { startRelay } from '@tenon/server/testing/relay'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runTenon } from './command.ts'
import { auditOf } from './expectations.ts'
import { processesOf } from './leftovers.ts'
import { buildPrograms } from './programs.ts'
import { INSTALL, Stage } from './stage.ts'
import { APP, makeTemplate, type Template } from './template.ts'
import { until } from './until.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const clusterUrl = process.env['TENON_TEST_POSTGRES_URL'] ?? ''
const EVICTED = 4

/** `web` makes a password of its own; `api` tells what it found of that and of the secret; `worker` works while `hold` is there. */
const JOB = `
import http from 'node:http'
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
const token = readFileSync(process.env.TENON_JOB_TOKEN_FILE, 'utf8')
const call = (method, path, body) => new Promise((resolve, reject) => {
  const options = { socketPath: process.env.TENON_JOB_URL.slice(5), method, path, headers: { authorization: 'Bearer ' + token } }
  const request = http.request(options, (response) => {
    let text = ''
    response.on('data', (part) => (text += part))
    response.on('end', () => resolve(response.statusCode === 200 ? JSON.parse(text) : undefined))
  })
  request.on('error', reject)
  request.end(body && JSON.stringify(body))
})
const sha256 = (text) => text === undefined ? 'none' : createHash('sha256').update(text).digest('hex')
const { kind, operations } = await call('GET', '/v1/manifest')
const component = kind === 'deploy' ? operations[0].component : undefined
if (component === 'web') await call('PUT', '/v1/outputs', { password: { value: randomUUID(), sensitive: true } })
if (component === 'api') {
  const secret = await call('GET', '/v1/secrets/api-key')
  const web = await call('GET', '/v1/outputs/web')
  await call('PUT', '/v1/outputs', {
    secret: { value: sha256(secret?.value), sensitive: false },
    password: { value: sha256(web?.password.value), sensitive: false },
  })
}
if (component === 'worker') {
  while (existsSync(new URL('hold', import.meta.url))) await new Promise((resolve) => setTimeout(resolve, 50))
}
await call('PUT', '/v1/result', { ok: true, message: 'worked', data: {} })
`

let dist: string
let removePrograms: () => void = () => undefined
let template: Template
let stage: Stage
let programs: string

beforeAll(async () => {
  const built = await buildPrograms(root)
  dist = built.dist
  removePrograms = built.remove
  template = await makeTemplate({ dist, clusterUrl })
}, 120_000)
afterAll(async () => {
  await template?.remove()
  removePrograms()
})

beforeEach(async () => {
  stage = new Stage({ dist, serverEnv: { TENON_LEASE_SECONDS: '4' } })
  await stage.begin(template)
  programs = stage.world.folder('programs')
  writeFileSync(join(programs, 'job.mjs'), JOB)
  await createInstall()
})
afterEach(() => stage.end())

const folder = (name: string) => join(stage.dir, name)

async function createInstall(): Promise<void> {
  const components = [
    { name: 'web', type: 'script', dependencies: [], config: {} },
    { name: 'api', type: 'script', dependencies: ['web'], config: { secrets: ['api-key'] } },
    { name: 'worker', type: 'script', dependencies: [], config: {} },
  ]
  const app = { name: APP, displayName: 'Shop', description: '', components }
  await stage.client.call('apps.sync', { body: { app } })
  await stage.client.call('installs.create', { body: { name: INSTALL, app: APP, sandbox: { type: 'none' } } })
}

function startAgent(name: string) {
  const env = { TENON_PROGRAMS_DIR: programs }
  return stage.world.startAgent(stage.server, { name, role: { install: INSTALL }, runtime: 'process', env })
}

async function tenon(...args: string[]): Promise<string> {
  const { code, output } = await runTenon(stage, args)
  if (code !== 0)
    throw new Error(`tenon ${args.join(' ')} ended with ${code}: ${output}\n${stage.lastWords()}`)
  return output
}

async function setSecret(value: string): Promise<void> {
  const file = folder('value')
  writeFileSync(file, value, { mode: 0o600 })
  await tenon('installs', 'secrets', 'set', INSTALL, 'api-key', '--file', file)
}

async function secretDelivered(version: number): Promise<void> {
  await until(`version ${version} of the secret to be delivered`, async () => {
    const { items } = await stage.client.call('secrets.list', { params: { ref: INSTALL } })
    return items.some((secret) => secret.version === version && secret.delivered)
  })
}

async function deploy(component: string): Promise<void> {
  await stage.client.call('deploys.create', { params: { ref: INSTALL }, body: { components: [component] } })
}

async function outputsOf(component: string): Promise<Record<string, unknown>> {
  const install = await stage.client.call('installs.get', { params: { ref: INSTALL } })
  const found = install.components.find(({ name }) => name === component)?.outputs ?? {}
  return Object.fromEntries(Object.entries(found).map(([name, output]) => [name, output.value]))
}

/** As a machine that burns: the agent, whatever it had started, and the disk. */
async function destroyMachine(
  name: string,
  agent: { kill(signal: 'SIGKILL'): void; exited: Promise<number> },
) {
  agent.kill('SIGKILL')
  await agent.exited
  await until('everything it had started to be gone', () => {
    const left = processesOf(folder(name))
    for (const { pid } of left) killIfThere(pid)
    return left.length === 0
  })
  rmSync(folder(name), { recursive: true, force: true, maxRetries: 5 })
}

/** It may end by itself between the look and the signal. */
function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

describe('an install whose agent lost its machine', { timeout: 240_000 }, () => {
  it('goes on with a new agent, restored from what the customer exported while the old one ran', async () => {
    const first = await startAgent('first')
    await stage.untilRun('succeeded')
    const before = await outputsOf('api')
    expect(before).toEqual({
      secret: sha256Of(undefined),
      password: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    })
    await setSecret('the first value')
    await secretDelivered(1)
    const { recipient } = await stage.client.call('installs.recipient', { params: { ref: INSTALL } })

    writeFileSync(join(programs, 'hold'), '')
    await deploy('worker')
    const lost = await stage.untilJob('deploy:worker', 'running')
    const status = JSON.parse(await tenon('agent', 'status', '--json', '--dir', folder('first'))) as {
      agentId: string
      jobs: object[]
    }
    expect(status).toMatchObject({
      running: true,
      jobs: [{ jobId: lost.id, kind: 'deploy', component: 'worker', state: 'running' }],
      runtime: { name: 'process' },
    })

    const key = folder('customer.key')
    const to = (await tenon('agent', 'keygen', '--out', key)).split('\n')[0]!
    await tenon('agent', 'export', '--dir', folder('first'), '--to', to, '--out', folder('store.age'))
    mkdirSync(folder('ghost'), { mode: 0o700 })
    for (const file of ['identity.json', 'agent.key'])
      cpSync(join(folder('first'), file), join(folder('ghost'), file))
    await destroyMachine('first', first)
    rmSync(join(programs, 'hold'))
    await stage.untilJob('deploy:worker', 'lost')
    await setSecret('sealed to the old agent')

    const second = folder('second')
    await tenon('agent', 'restore', '--dir', second, '--from', folder('store.age'), '--identity-file', key)
    await tenon('agent', 'revoke', status.agentId)
    await startAgent('second')
    await secretDelivered(2)
    const after = await stage.client.call('installs.recipient', { params: { ref: INSTALL } })
    expect(after.recipient).toBe(recipient)
    expect(after.agentId).not.toBe(status.agentId)
    const ghost = await startAgent('ghost')
    expect(await ghost.exited).toBe(EVICTED)

    expect((await stage.job('deploy:worker'))?.status).toBe('lost')
    const body = { outcome: 'failed', reason: 'its machine burned' } as const
    await stage.client.call('jobs.settle', { params: { id: lost.id }, body })
    await stage.untilRun('failed')
    await deploy('api')
    await stage.untilRun('succeeded')
    expect(await outputsOf('api')).toEqual({ ...before, secret: sha256Of('sealed to the old agent') })

    const entries = await auditOf(stage)
    const of = (action: string, id: string) =>
      entries.find((entry) => entry.action === action && entry.subject.id === id)
    expect(of('agent.enrolled', after.agentId)?.details).toMatchObject({ replaces: [status.agentId] })
    expect(of('job.lost', lost.id)).toBeDefined()
    expect(of('job.failed', lost.id)?.details).toMatchObject({ reason: 'forced', forced: true })
    await tenon('audit', 'verify', '--all')
    expect(existsSync(folder('first'))).toBe(false)
  })
})

describe('a relay between a new agent and its server', { timeout: 120_000 }, () => {
  it('hears nothing that enrols another agent', async () => {
    const { joinToken } = await stage.client.call('installs.joinToken', { params: { ref: INSTALL } })
    const relay = await startRelay(stage.server.url)
    try {
      const heard = relay.listen()
      writeFileSync(join(stage.world.folder('agent'), 'join-token'), joinToken, { mode: 0o600 })
      const role = { install: INSTALL }
      await stage.world.startAgent(stage.server, {
        name: 'agent',
        role,
        runtime: 'process',
        serverUrl: relay.url,
        env: { TENON_PROGRAMS_DIR: programs },
      })
      await until('the agent to be enrolled', async () => {
        const { agent } = await stage.client.call('installs.get', { params: { ref: INSTALL } })
        return agent !== null
      })
      expect(heard()).toContain('/agent/v1/enrol')
      expect(heard()).not.toContain(parseJoinToken(joinToken)!.secret)
    } finally {
      await relay.close()
    }
  })
})

describe('an agent that changes its key', { timeout: 240_000 }, () => {
  it('keeps its install and its audit, and nobody is asked, also when it is killed in the middle', async () => {
    const agent = await startAgent('agent')
    const dir = ['--dir', folder('agent')]
    await stage.untilRun('succeeded')
    await setSecret('before')
    expect(await tenon('agent', 'rotate-key', ...dir)).toContain('the key of this agent is now')
    await setSecret('after')
    await secretDelivered(2)

    agent.kill('SIGKILL')
    await agent.exited
    expect(await tenon('agent', 'rotate-key', ...dir)).toContain('is made')
    await startAgent('agent')
    await setSecret('after the kill')
    await secretDelivered(3)
    await deploy('api')
    await stage.untilRun('succeeded')
    const actions = (await auditOf(stage)).map(({ action }) => action)
    expect(actions.filter((action) => action === 'agent.key_accepted')).toHaveLength(2)
    expect(actions).toContain('agent.key_rotated')
    await tenon('audit', 'verify', '--all')
  })
})

describe('the customer’s own switch', { timeout: 120_000 }, () => {
  it('stops a job and holds all new ones until it is turned back; server and audit say who did it', async () => {
    writeFileSync(join(programs, 'hold'), '')
    const agent = await startAgent('agent')
    const dir = ['--dir', folder('agent')]
    const job = await stage.untilJob('deploy:worker', 'running')
    await tenon('agent', 'jobs', 'stop', job.id, ...dir)
    const ended = await stage.untilJob('deploy:worker', 'canceled')
    expect(ended).toMatchObject({ reason: 'canceled' })
    expect(ended.message).toMatch(/^The customer stopped the job/)
    await until('the run to end', async () => (await stage.run()).finishedAt !== null)

    await tenon('agent', 'pause', ...dir)
    await agent.stop()
    await startAgent('agent')
    rmSync(join(programs, 'hold'))
    await deploy('worker')
    const held = await stage.untilJob('sync:worker', 'held')
    expect(held.waiting).toMatchObject({ code: 'held', message: expect.stringContaining('paused') as string })
    expect((await stage.run()).waiting).toMatchObject([{ code: 'held' }])
    const entry = (await auditOf(stage)).find(({ action }) => action === 'job.held')
    expect(entry).toMatchObject({ actor: { type: 'agent' }, details: { rule: 'pause' } })
    await tenon('agent', 'resume', ...dir)
    await stage.untilRun('succeeded')
    expect(await stage.untilJob('sync:worker', 'succeeded')).toMatchObject({ id: held.id })
  })
})

function sha256Of(text: string | undefined): string {
  return text === undefined ? 'none' : createHash('sha256').update(text).digest('hex')
}
