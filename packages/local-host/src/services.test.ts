import { mkdir, readFile, rm, stat, symlink, writeFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { LocalHostClient } from './client.ts'
import type { UnitSpecInput } from '@tenon/protocol/local-host'
import { ask, createTestMachine, isPortFree, isRunning, until, webService } from './test-machine.ts'
import type { TestMachine } from './test-machine.ts'

let machine: TestMachine
let install: LocalHostClient

beforeEach(async () => {
  machine = await createTestMachine()
  await machine.start()
  await (await machine.admin()).putInstall('acme', {})
  install = await machine.install('acme')
})

afterEach(() => machine.cleanUp())

describe('a service of an install', () => {
  it('is deployed when its health check passes', async () => {
    const port = await install.allocatePort('web.http')
    const result = await install.putService('web', webService(machine, port), { waitSeconds: 10 })
    expect(result).toMatchObject({
      outcome: 'healthy',
      changed: true,
      unit: { state: 'healthy', restarts: 0 },
    })
    expect((await ask(port)).pid).toBe(result.unit.pid)
  })

  it('is not touched by the same call again', async () => {
    const port = await install.allocatePort('web.http')
    const first = await install.putService('web', webService(machine, port), { waitSeconds: 10 })
    const again = await install.putService('web', webService(machine, port), { waitSeconds: 10 })
    expect(again).toMatchObject({ outcome: 'healthy', changed: false })
    expect(again.unit.pid).toBe(first.unit.pid)
  })

  it('is replaced when its configuration or its bundle changes', async () => {
    const port = await install.allocatePort('web.http')
    const first = await install.putService('web', webService(machine, port), { waitSeconds: 10 })
    await install.putService('web', webService(machine, port, { TEXT: 'two' }), { waitSeconds: 10 })
    expect((await ask(port)).text).toBe('two')
    expect(isRunning(first.unit.pid ?? 0)).toBe(false)
    await writeFile(join(machine.service, 'extra.txt'), 'a new file')
    const third = await install.putService('web', webService(machine, port, { TEXT: 'two' }), {
      waitSeconds: 10,
    })
    expect(third).toMatchObject({ outcome: 'healthy', changed: true })
  })

  it('runs from its own copy, so the folder it came from may vanish', async () => {
    const port = await install.allocatePort('web.http')
    const { unit } = await install.putService('web', webService(machine, port), { waitSeconds: 10 })
    await rm(machine.service, { recursive: true })
    process.kill(unit.pid ?? 0, 'SIGKILL')
    const after = await until('it is back', async () => {
      const now = await install.getService('web')
      return now.state === 'healthy' && now.pid !== unit.pid && now
    })
    expect(after).toMatchObject({ restarts: 1, lastExit: { code: null, signal: 'SIGKILL' } })
  })

  it('that crashes is reported with its exit code and its last words', async () => {
    const port = await install.allocatePort('web.http')
    const result = await install.putService('web', webService(machine, port, { CRASH: '3' }), {
      waitSeconds: 10,
    })
    expect(result).toMatchObject({ outcome: 'crashed', reason: 'The process ended with exit code 3.' })
    expect(result.logTail).toEqual(['service begins one', 'cannot open the database'])
    expect(result.unit.state).toBe('backoff')
  })

  it('whose program does not exist is reported as crashed', async () => {
    const result = await install.putService(
      'web',
      { command: ['no-such-program'], health: 'none' },
      { waitSeconds: 10 },
    )
    expect(result).toMatchObject({ outcome: 'crashed', reason: 'The process ended with exit code 127.' })
    expect(result.logTail.join()).toContain('no-such-program')
  })

  it('whose working folder does not exist is reported as crashed', async () => {
    const spec: UnitSpecInput = { command: ['true'], cwd: '/nowhere/at/all', health: 'none' }
    const result = await install.putService('web', spec, { waitSeconds: 10 })
    expect(result).toMatchObject({ outcome: 'crashed' })
    expect(result.reason).toContain('/nowhere/at/all does not exist')
  })

  it('that is up but never healthy is reported with the probe, and the last good version stays on disk', async () => {
    const port = await install.allocatePort('web.http')
    const good = await install.putService('web', webService(machine, port), { waitSeconds: 10 })
    const sick = webService(machine, port, { SICK: '/' })
    const bad = await install.putService('web', sick, { waitSeconds: 1 })
    expect(bad).toMatchObject({ outcome: 'probe_failed', unit: { state: 'starting' } })
    expect(bad.reason).toContain('status 500')
    const versions = () => readdir(join(machine.dir, 'installs/acme/services/web/versions'))
    expect((await versions()).toSorted()).toEqual([good.unit.version, bad.unit.version].toSorted())
    await install.putService('web', webService(machine, port), { waitSeconds: 10 })
    await until('only the healthy one is kept', async () => (await versions()).length === 1)
  })

  it('turns unhealthy when its probes fail, and healthy when they pass again', async () => {
    const port = await install.allocatePort('web.http')
    const flag = join(machine.service, '..', 'sick')
    await install.putService('web', webService(machine, port, { SICK: flag }), { waitSeconds: 10 })
    await writeFile(flag, '')
    await until('unhealthy', async () => (await install.getService('web')).state === 'unhealthy')
    expect((await install.getService('web')).lastHealthError).toContain('status 500')
    await rm(flag)
    await until('healthy', async () => (await install.getService('web')).state === 'healthy')
  })

  it('without a health check is healthy when it stays up', async () => {
    const spec: UnitSpecInput = { command: ['sleep', '60'], health: 'none' }
    const result = await install.putService('idle', spec, { waitSeconds: 10 })
    expect(result.outcome).toBe('healthy')
  })

  it('answers the earlier of two changes as superseded', async () => {
    const port = await install.allocatePort('web.http')
    const earlier = install.putService('web', webService(machine, port, { SICK: '/' }), { waitSeconds: 30 })
    await until('it is there', async () => (await install.listServices()).some((one) => one.pid !== null))
    const later = await install.putService('web', webService(machine, port), { waitSeconds: 10 })
    expect((await earlier).outcome).toBe('superseded')
    expect(later.outcome).toBe('healthy')
  })

  it('is removed with its whole process group, even one that ignores SIGTERM', async () => {
    const script = `trap '' TERM; sh -c "trap '' TERM; echo child $$; while :; do sleep 1; done" & while :; do sleep 1; done`
    const spec: UnitSpecInput = { command: ['sh', '-c', script], health: 'none', stopGraceSeconds: 0.3 }
    const { unit } = await install.putService('stubborn', spec, { waitSeconds: 10 })
    expect(await install.deleteService('stubborn')).toBe(true)
    expect(isRunning(unit.pid ?? 0)).toBe(false)
    expect(await install.listServices()).toEqual([])
    expect(await install.deleteService('stubborn')).toBe(false)
    await expect(install.getService('stubborn')).rejects.toMatchObject({ code: 'service_not_found' })
  })

  it('shows the end of its log', async () => {
    const spec: UnitSpecInput = { command: ['sh', '-c', 'seq 1 1000; exec sleep 60'], health: 'none' }
    await install.putService('counter', spec, { waitSeconds: 10 })
    expect(await install.serviceLogs('counter', { tail: 2 })).toEqual(['999', '1000'])
  })

  it('gets its files with mode 0600 and an environment made from nothing', async () => {
    const script = 'cat "$1"; env; exec sleep 60'
    const spec: UnitSpecInput = {
      command: ['sh', '-c', script, 'sh', '{files}/token'],
      files: { token: 'top-secret\n' },
      health: 'none',
    }
    const { unit } = await install.putService('agent', spec, { waitSeconds: 10 })
    const lines = await install.serviceLogs('agent')
    const names = lines.filter((line) => line.includes('=')).map((line) => line.split('=')[0])
    const own = ['TENON_DATA', 'TENON_FILES', 'TENON_INSTALL_ID', 'TENON_UNIT', 'TENON_UNIT_VERSION']
    expect(lines).toContain('top-secret')
    expect(names.filter((name) => name !== '_').toSorted()).toEqual(['HOME', 'LANG', 'PATH', 'PWD', ...own])
    const folder = join(machine.dir, 'installs/acme/services/agent')
    const file = await stat(join(folder, 'versions', unit.version ?? '', 'files/token'))
    expect(file.mode & 0o777).toBe(0o600)
    expect((await stat(join(folder, 'unit.json'))).mode & 0o777).toBe(0o600)
    expect(await readFile(join(folder, 'unit.json'), 'utf8')).not.toContain('top-secret')
  })

  it('is refused when its bundle reaches outside itself or into another install', async () => {
    await symlink('../../etc', join(machine.service, 'escape'))
    const port = await install.allocatePort('web.http')
    const escaping = install.putService('web', webService(machine, port))
    await expect(escaping).rejects.toMatchObject({ code: 'bundle_invalid' })
    const other = join(machine.dir, 'installs/other')
    await mkdir(other)
    const stealing = install.putService('web', webService(machine, port, {}, { bundlePath: other }))
    await expect(stealing).rejects.toMatchObject({ code: 'bundle_invalid' })
    const absent = install.putService('web', webService(machine, port, {}, { bundlePath: '/no/where' }))
    await expect(absent).rejects.toMatchObject({ code: 'bundle_invalid' })
  })
})

describe('a port', () => {
  it('stays the same for its name and is given to nobody else', async () => {
    const admin = await machine.admin()
    await admin.putInstall('other', {})
    const other = await machine.install('other')
    const [a, b, again, elsewhere] = await Promise.all([
      install.allocatePort('a'),
      install.allocatePort('b'),
      install.allocatePort('a'),
      other.allocatePort('a'),
    ])
    expect(again).toBe(a)
    expect(new Set([a, b, elsewhere]).size).toBe(3)
    expect(await admin.allocateInstallPort('acme', 'a')).toBe(a)
    expect(await isPortFree(a)).toBe(true)
  })
})
