import { request } from 'node:http'
import { connect } from 'node:net'
import { readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLocalHostClient } from './client.ts'
import type { LocalHostClient } from './client.ts'
import { errorAnswerSchema } from '@tenon/protocol/local-host'
import type { UnitSpecInput } from '@tenon/protocol/local-host'
import { createTestMachine, isRunning } from './test-machine.ts'
import type { TestMachine } from './test-machine.ts'

const IDLE: UnitSpecInput = { command: ['sleep', '300'], health: 'none' }

let machine: TestMachine
let admin: LocalHostClient
let adminPath: string
let installPath: string

beforeAll(async () => {
  machine = await createTestMachine()
  adminPath = (await machine.start()).adminSocket
  admin = await machine.admin()
  installPath = (await admin.putInstall('fixed', {})).install.socketPath
})

afterAll(() => machine.cleanUp())

describe('the admin socket', () => {
  it('makes an install with its system units, and keeps exactly those it was told last', async () => {
    const made = await admin.putInstall('acme', { registry: IDLE, agent: IDLE }, { waitSeconds: 10 })
    expect(made.units).toMatchObject({ registry: { outcome: 'healthy' }, agent: { outcome: 'healthy' } })
    const [agent] = made.install.units.filter((unit) => unit.name === 'agent')
    const next = await admin.putInstall('acme', { agent: IDLE }, { waitSeconds: 10 })
    expect(next.install.units).toMatchObject([{ name: 'agent', pid: agent?.pid }])
    expect((await admin.listInstalls()).map((install) => install.id)).toContain('acme')
  })

  it('removes an install with all that is its own and nothing else', async () => {
    const kept = await admin.putInstall('kept', { agent: IDLE }, { waitSeconds: 10 })
    const doomed = await admin.putInstall('doomed', { agent: IDLE }, { waitSeconds: 10 })
    const install = createLocalHostClient({ socketPath: doomed.install.socketPath })
    const { unit } = await install.putService('idle', IDLE, { waitSeconds: 10 })
    expect(await admin.deleteInstall('doomed')).toBe(true)
    for (const pid of [unit.pid, doomed.install.units[0]?.pid]) expect(isRunning(pid ?? 0)).toBe(false)
    expect(await readdir(join(machine.dir, 'installs'))).not.toContain('doomed')
    expect(isRunning(kept.install.units[0]?.pid ?? 0)).toBe(true)
    await expect(install.listServices()).rejects.toMatchObject({ code: 'unreachable' })
    await expect(admin.getInstall('doomed')).rejects.toMatchObject({ code: 'install_not_found' })
    expect(await admin.deleteInstall('doomed')).toBe(false)
  })

  it('is open to nobody but the user', async () => {
    for (const path of [adminPath, installPath]) {
      expect((await stat(path)).mode & 0o777).toBe(0o600)
      expect((await stat(dirname(path))).mode & 0o777).toBe(0o700)
    }
  })
})

describe("an install's socket", () => {
  it('knows neither installs nor system units nor the services of others', async () => {
    await admin.putInstall('one', { agent: IDLE }, { waitSeconds: 10 })
    await admin.putInstall('two', {})
    const one = await machine.install('one')
    const two = await machine.install('two')
    await one.putService('idle', IDLE, { waitSeconds: 10 })
    expect(await two.listServices()).toEqual([])
    expect(await two.deleteService('idle')).toBe(false)
    expect(await one.deleteService('agent')).toBe(false)
    await expect(one.getService('agent')).rejects.toMatchObject({ code: 'service_not_found' })
    await expect(one.listInstalls()).rejects.toMatchObject({ code: 'not_found' })
    await expect(one.deleteInstall('two')).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('bad input', () => {
  const good = JSON.stringify(IDLE)
  it.each([
    ['a name with dots', '/services/..', good, 'invalid_name'],
    ['a name with an encoded slash', '/services/a%2f..%2fb', good, 'invalid_name'],
    ['a name that is not encoded rightly', '/services/%zz', good, 'invalid_name'],
    ['a name past its length', `/services/${'a'.repeat(64)}`, good, 'invalid_name'],
    ['a path with a slash', '/services/a/b', good, 'not_found'],
    ['a wait that is no number', '/services/a?wait=soon', good, 'invalid_request'],
    ['a wait past its limit', '/services/a?wait=1e9', good, 'invalid_request'],
    ['no body', '/services/a', '', 'invalid_request'],
    ['a body that is not JSON', '/services/a', '{', 'invalid_request'],
    ['a body of another type', '/services/a', '[]', 'invalid_request'],
    ['a command of another type', '/services/a', '{"command":"ls","health":"none"}', 'invalid_request'],
    ['an unknown field', '/services/a', good.replace('{', '{"user":"root",'), 'invalid_request'],
    [
      'a file name with a slash',
      '/services/a',
      good.replace('{', '{"files":{"../x":""},'),
      'invalid_request',
    ],
    ['a NUL byte', '/services/a', good.replace('300', String.raw`3\u00000`), 'invalid_request'],
    ['a relative bundle', '/services/a', good.replace('{', '{"bundlePath":"x",'), 'invalid_request'],
    ['a body past the limit', '/services/a', `"${'x'.repeat(3 * 1024 * 1024)}"`, 'body_too_large'],
  ])('%s gets a coded refusal', async (_what, path, body, code) => {
    const { status, text } = await raw('PUT', path, body)
    expect(status).toBeGreaterThanOrEqual(400)
    const { error } = errorAnswerSchema.parse(JSON.parse(text))
    expect(error.code).toBe(code)
    expect(error.remedy).not.toBe('')
    expect(await readdir(join(machine.dir, 'installs/fixed/services'))).toEqual([])
  })

  it('of any kind never brings the local-host down', async () => {
    const method = fc.constantFrom('GET', 'PUT', 'POST', 'DELETE', 'PATCH')
    const path = fc.oneof(
      fc.webPath().map((tail) => `/services${tail}`),
      fc.webPath().map((tail) => `/ports${tail}`),
      fc.constantFrom('/services/a', '/services/a/logs?tail=x', '/ports', '/services'),
    )
    const body = fc.oneof(fc.json(), fc.string(), fc.constant('{"name":"__proto__"}'))
    await fc.assert(
      fc.asyncProperty(method, path, body, async (verb, where, content) => {
        const { status, text } = await raw(verb, where, content)
        expect(status).toBeLessThan(500)
        if (status >= 400) errorAnswerSchema.parse(JSON.parse(text))
      }),
      { numRuns: 300 },
    )
  })

  it('that is not even HTTP never brings it down', async () => {
    const answer = await new Promise<string>((resolve) => {
      let text = ''
      const socket = connect(installPath, () => socket.end('\0\x01 garbage\r\n\r\n'))
      socket.on('data', (chunk) => (text += chunk.toString()))
      socket.on('close', () => resolve(text)).on('error', () => undefined)
    })
    expect(answer).toContain('"code":"invalid_request"')
    expect(await (await machine.install('fixed')).listServices()).toEqual([])
  })
})

function raw(method: string, path: string, body: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-length': Buffer.byteLength(body) }
    const outgoing = request({ socketPath: installPath, method, path, headers, agent: false }, (incoming) => {
      let text = ''
      incoming.on('data', (chunk: Buffer) => (text += chunk.toString()))
      incoming.on('end', () => resolve({ status: incoming.statusCode ?? 0, text }))
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}
