import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ManifestOperation } from '@tenon/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JobRecord } from '../testing/job-api-server.ts'
import { INSTALL_ID, JobWorld, type TestRegistry } from '../testing/job-world.ts'
import { isAlive, until } from '../testing/programs.ts'
import { createTestHost, type TestHost } from '../testing/test-host.ts'
import { systemUnits } from './create.ts'

/** Stands where the agent's program stands: writes down what it was started with, then stays. */
const AGENT = `
import { readFileSync, statSync, writeFileSync } from 'node:fs'
const { TENON_JOIN_TOKEN_FILE: join, TENON_REGISTRY_KEY_FILE: key, TENON_STORE_KEY_FILE: store } = process.env
const file = (path) => ({ text: readFileSync(path, 'utf8'), mode: statSync(path).mode & 0o777 })
const seen = { pid: process.pid, env: process.env, argv: process.argv, files: { join: file(join), key: file(key), store: file(store) } }
writeFileSync(process.env.TENON_AGENT_DIR + '/seen.json', JSON.stringify(seen))
setInterval(() => {}, 1e6)
`

interface Seen {
  pid: number
  env: Record<string, string>
  argv: string[]
  files: Record<'join' | 'key' | 'store', { text: string; mode: number }>
}

describe('the local sandbox', () => {
  let world: JobWorld
  let vendor: TestRegistry
  let host: TestHost
  let plugin: ManifestOperation['plugin']

  beforeAll(async () => {
    world = await JobWorld.create()
    await writeFile(join(world.programs, 'agent.mjs'), AGENT)
    vendor = await world.registry()
    plugin = await world.pushPlugin(vendor, 'sandbox-local')
    host = await createTestHost(world)
  })
  afterAll(async () => {
    await host.stop()
    await world.close()
  })

  const run = async (config: ManifestOperation['config'], given: Partial<JobRecord> = {}) => {
    const operation = {
      operation: 'sandbox' as const,
      plugin,
      component: null,
      config: { installId: INSTALL_ID, installName: 'acme', host: { dir: host.dir }, ...config },
    }
    const api = await world.jobApi([operation], {
      context: {
        installId: null,
        hostSocket: null,
        serverUrl: 'http://127.0.0.1:4000',
        programs: world.programs,
        registry: { url: vendor.server.url, bearer: vendor.bearer() },
      },
      ...given,
    })
    const job = await world.startJob(api)
    return { code: await job.ended, output: job.output(), record: api.record }
  }
  const installs = () => readdir(join(host.dir, 'installs'))
  const agentSaw = async (joinToken: string): Promise<Seen> =>
    until('the agent', async () => {
      const path = join(host.dir, 'installs', INSTALL_ID, 'system/agent/data/seen.json')
      const seen = JSON.parse(await readFile(path, 'utf8').catch(() => 'null')) as Seen | null
      return seen?.files.join.text === joinToken ? seen : undefined
    })

  it('makes an install with its own registry and agent, refreshes it, and removes it', async () => {
    const made = await run({ action: 'create' }, { joinToken: () => 'join-one' })
    expect(made.output).toContain('sandbox succeeded')
    expect(made.code).toBe(0)
    const first = await agentSaw('join-one')
    const registryUrl = made.record.result?.data['registryUrl'] as string
    expect(first.env).toMatchObject({
      TENON_SERVER_URL: 'http://127.0.0.1:4000',
      TENON_REGISTRY_URL: registryUrl,
      TENON_HOST_SOCKET: made.record.result?.data['hostSocket'],
    })
    expect(Object.values(first.files).map(({ mode }) => mode)).toEqual([0o600, 0o600, 0o600])
    const secrets = Object.values(first.files).map(({ text }) => text)
    const visible = [made.output, JSON.stringify([made.record.result, first.env, first.argv])].join('\n')
    for (const secret of secrets) expect(visible).not.toContain(secret)

    const bearer = await tokenOf(registryUrl, first.files.key.text)
    const open = await fetch(`${registryUrl}/v2/`, { headers: { authorization: `Bearer ${bearer}` } })
    expect(open.status).toBe(200)
    expect((await fetch(`${registryUrl}/v2/`)).status).toBe(401)

    const again = await run({ action: 'create' }, { joinToken: () => 'join-two' })
    expect(again.record.result?.data).toEqual(made.record.result?.data)
    const second = await agentSaw('join-two')
    expect(second.files.key.text).toBe(first.files.key.text)
    expect(second.files.store.text).toBe(first.files.store.text)
    expect(isAlive(first.pid)).toBe(false)
    expect((await stat(join(host.dir, 'keys', `${INSTALL_ID}.json`))).mode & 0o777).toBe(0o600)

    const removed = await run({ action: 'destroy' })
    expect(removed.record.result).toMatchObject({
      ok: true,
      message: 'install acme is removed',
      data: { removed: true },
    })
    expect(isAlive(second.pid)).toBe(false)
    expect(await installs()).toEqual([])
    expect(await readdir(join(host.dir, 'keys'))).toEqual([])
    await expect(fetch(`${registryUrl}/v2/`)).rejects.toThrow('fetch failed')
    expect((await run({ action: 'destroy' })).record.result?.data).toEqual({ removed: false })
  }, 60_000)

  it('fails and says why when the agent does not come up, and shows no secret', async () => {
    await writeFile(join(world.programs, 'agent.mjs'), `console.log('cannot enrol'); process.exit(7)`)
    const { code, output, record } = await run({ action: 'create' }, { joinToken: () => 'join-three' })
    expect(code).toBe(1)
    expect(record.result?.data).toEqual({ code: 'host_refused' })
    expect(output).toMatch(/^error host_refused: The agent of the install did not come up.*cannot enrol/m)
    expect(output).not.toContain('join-three')
    expect((await run({ action: 'destroy' })).code).toBe(0)
  }, 60_000)

  it('refuses a configuration that is not one, and a machine that cannot hold an install', async () => {
    const relative = await run({ action: 'create', host: { dir: 'x' } })
    expect(relative.record.result?.data).toEqual({ code: 'config_invalid' })
    const closed = await world.folder({
      'admin.path': host.adminSocket,
      keys: 'a file where the folder should be',
    })
    const refused = await run({ action: 'create', host: { dir: closed } })
    expect(refused.output).toMatch(/^error host_refused: The keys of the install in /m)
    const nowhere = await run({ action: 'create', host: { dir: world.dir } })
    expect(nowhere.record.result?.data).toEqual({ code: 'host_unreachable' })
    expect(await installs()).toEqual([])
  })
})

describe('the units of an install', () => {
  it('hold secrets in files only', () => {
    const keys = { registry: 'REGISTRY-KEY', store: 'STORE-KEY' }
    const units = systemUnits({
      node: '/node',
      programs: '/programs',
      serverUrl: 'http://s',
      hostSocket: '/h.sock',
      registryPort: 20_000,
      joinToken: 'JOIN-TOKEN',
      keys,
    })
    const outside = JSON.stringify(
      Object.values(units).map(({ command, env, health }) => [command, env, health]),
    )
    expect(outside).not.toMatch(/REGISTRY-KEY|STORE-KEY|JOIN-TOKEN/)
    expect(units['agent']?.files).toEqual({
      'join-token': 'JOIN-TOKEN',
      'registry.key': 'REGISTRY-KEY',
      'store.key': 'STORE-KEY',
    })
  })
})

async function tokenOf(registryUrl: string, key: string): Promise<string> {
  const answer = await fetch(`${registryUrl}/token`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({
      subject: 'test',
      ttlSeconds: 60,
      repositories: [{ name: '*', actions: ['pull'] }],
    }),
  })
  return ((await answer.json()) as { bearer: string }).bearer
}
