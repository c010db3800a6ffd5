import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkNode } from '../doctor/machine.ts'
import { startApi, TOKEN, type Api } from '../testing/api-server.ts'
import { createHome, type Home } from '../testing/run-cli.ts'
import { agent, job, serverInfo, testId, token } from '../testing/values.ts'

let api: Api
let home: Home

beforeEach(async () => {
  home = await createHome()
  api = await startApi({
    'server.info': () => serverInfo(),
    'tokens.list': () => ({ items: [token({ id: testId('token') })], next: null }),
    'agents.list': () => ({ items: [agent()], next: null }),
    'jobs.list': () => ({ items: [], next: null }),
  })
})
afterEach(() => api.stop())

interface Check {
  name: string
  status: string
  message: string
  remedy: string | null
}

async function examine(
  env: Record<string, string> = api.env,
): Promise<{ code: number; checks: Record<string, Check> }> {
  const ran = await home.run(['doctor', '--json'], { env, dist: join(home.home, 'dist') })
  const { checks } = JSON.parse(ran.stdout) as { checks: Check[] }
  return { code: ran.code, checks: Object.fromEntries(checks.map((check) => [check.name, check])) }
}

describe('the doctor', () => {
  it('is content with a healthy setting', async () => {
    const { code, checks } = await examine()
    expect(code).toBe(0)
    for (const name of ['node', 'config', 'sign-in', 'server', 'clock', 'token', 'agents', 'jobs']) {
      expect(checks[name]).toMatchObject({ status: 'ok', remedy: null })
    }
    expect(checks['bundles']).toMatchObject({
      status: 'warn',
      remedy: expect.stringContaining('npm run build'),
    })
  })

  it('writes a line for each check, and below it what to do', async () => {
    const { stdout } = await home.run(['doctor'], { env: api.env })
    expect(stdout).toMatch(/^ok {4}node +version /m)
    expect(stdout).toMatch(/^warn {2}bundles .+\n +next: run `npm run build`/m)
  })

  it('fails when nobody is signed in, or the server is away, or refuses the token', async () => {
    expect(await examine({})).toMatchObject({ code: 1, checks: { 'sign-in': { status: 'fail' } } })
    expect(await examine({ TENON_URL: 'http://127.0.0.1:9', TENON_TOKEN: 'x' })).toMatchObject({
      code: 1,
      checks: { server: { status: 'fail' } },
    })
    expect(await examine({ ...api.env, TENON_TOKEN: 'wrong' })).toMatchObject({
      code: 1,
      checks: { token: { status: 'fail' } },
    })
  })

  it('fails when others can read the tokens', async () => {
    await home.run(['login', '--url', api.url], { stdin: TOKEN })
    await chmod(home.configFile, 0o644)
    const { code, checks } = await examine()
    expect(code).toBe(1)
    expect(checks['config']).toMatchObject({ status: 'fail', remedy: `chmod 600 ${home.configFile}` })
  })

  it('fails on lost jobs and on a clock far off; warns of agents away and a token about to expire', async () => {
    api.handlers['jobs.list'] = () => ({ items: [job({ status: 'lost' })], next: null })
    const away = agent({ connected: false, role: 'install', install: 'acme' })
    api.handlers['agents.list'] = () => ({ items: [away], next: null })
    api.handlers['tokens.list'] = () => ({
      items: [token({ id: testId('token'), expiresAt: new Date(Date.now() + 86_400_000).toISOString() })],
      next: null,
    })
    api.handlers['server.info'] = ({ response }) => {
      response.setHeader('date', new Date(Date.now() - 600_000).toUTCString())
      return serverInfo({ version: '9.9.9' })
    }
    const { code, checks } = await examine()
    expect(code).toBe(1)
    expect(checks['jobs']).toMatchObject({ status: 'fail', remedy: `tenon jobs why ${testId('job')}` })
    expect(checks['clock']).toMatchObject({
      status: 'fail',
      message: expect.stringContaining('ahead of the server'),
    })
    expect(checks['agents']).toMatchObject({
      status: 'warn',
      message: expect.stringContaining(`1 agent away: acme’s ${testId('agent')} (install, builder)`),
    })
    expect(checks['token']?.status).toBe('warn')
    expect(checks['server']).toMatchObject({ status: 'warn', message: expect.stringContaining('9.9.9') })
  })

  it('tells build agents that are gone from ones that never came', async () => {
    api.handlers['agents.list'] = () => ({ items: [], next: null })
    expect((await examine()).checks['agents']?.message).toBe('no build agent has enrolled yet')
    api.handlers['agents.list'] = () => ({ items: [agent({ role: 'build', status: 'revoked' })], next: null })
    expect((await examine()).checks['agents']?.message).toContain('no build agent is enrolled any more')
  })

  it('says what the machine of an agent cannot keep its jobs from', async () => {
    expect((await examine()).checks['walls']).toMatchObject({
      status: 'ok',
      message: expect.stringContaining('egress'),
    })
    const runtime = { name: 'process', confinement: '', warnings: ['Jobs are not confined.'] }
    const one = agent({ runtime, role: 'install', install: 'acme' })
    api.handlers['agents.list'] = () => ({ items: [one], next: null })
    expect((await examine()).checks['walls']).toMatchObject({
      status: 'warn',
      message: expect.stringContaining(`acme’s ${testId('agent')} (install): Jobs are not confined.`),
      remedy: expect.stringContaining('TENON_JOB_NETWORKS'),
    })
  })

  it('says once of all agents on Kubernetes that declared egress is open there, and what docker leaves open', async () => {
    const open =
      'Declared names narrow nothing on Kubernetes yet: jobs with egress reach whatever a pod reaches.'
    const held =
      'What internal and cluster jobs may reach holds where the network of the cluster enforces it.'
    const services = 'Jobs of container_image and docker_build keep the whole network of the engine.'
    const runtimeOf = (name: string, warnings: string[]) => ({ name, confinement: '', warnings })
    const inCluster = ['acme', 'beta', 'gamma', 'delta'].map((install) =>
      agent({ runtime: runtimeOf('kubernetes', [open, held]), role: 'install', install }),
    )
    const onDocker = agent({ runtime: runtimeOf('docker', [services]), role: 'install', install: 'epsilon' })
    api.handlers['agents.list'] = () => ({ items: [...inCluster, onDocker], next: null })
    const { status, message = '' } = (await examine()).checks['walls'] ?? {}
    expect(status).toBe('warn')
    const id = testId('agent')
    const names = ['acme', 'beta', 'gamma'].map((install) => `${install}’s ${id} (install)`).join(', ')
    expect(message).toContain(`${names} and 1 more: ${open}`)
    expect(message.split(open)).toHaveLength(2)
    expect(message).toContain(held)
    expect(message).toContain(`epsilon’s ${id} (install): ${services}`)
  })

  it('finds the bundles and bubblewrap where they are', async () => {
    const bin = join(home.home, 'bin')
    await mkdir(bin)
    await writeFile(join(bin, 'bwrap'), '', { mode: 0o755 })
    await mkdir(join(home.home, 'dist'))
    for (const name of ['cli', 'server', 'agent', 'job', 'registry', 'local-host'])
      await writeFile(join(home.home, 'dist', `${name}.mjs`), '')
    const { checks } = await examine({ ...api.env, PATH: bin })
    expect(checks['bubblewrap']).toMatchObject({ status: 'ok', message: join(bin, 'bwrap') })
    expect(checks['bundles']?.status).toBe('ok')
    expect((await examine({ ...api.env, PATH: '/nowhere' })).checks['bubblewrap']?.status).toBe('warn')
  })

  it('knows which Node is too old', () => {
    expect(['20.18.1', '18.20.0', '20.19.0', '24.0.0'].map((v) => checkNode(v).status)).toEqual([
      'fail',
      'fail',
      'ok',
      'ok',
    ])
  })
})
