import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createLocalHostClient } from './client.ts'
import type { UnitSpecInput } from '@tenon/protocol/local-host'
import { ask, createTestMachine, isPortFree, isRunning, until, webService } from './test-machine.ts'
import type { TestMachine } from './test-machine.ts'

let bundleFolder: string
let program: string
let machine: TestMachine
let children: ChildProcess[]

beforeAll(async () => {
  bundleFolder = await mkdtemp(join(tmpdir(), 'lh-bundle-'))
  program = join(bundleFolder, 'local-host.mjs')
  const main = join(import.meta.dirname, 'main.ts')
  await build({ entryPoints: [main], bundle: true, platform: 'node', format: 'esm', outfile: program })
})

afterAll(() => rm(bundleFolder, { recursive: true }))

beforeEach(async () => {
  machine = await createTestMachine()
  children = []
})

afterEach(async () => {
  try {
    for (const child of children) await end(child, 'SIGTERM')
  } finally {
    await machine.cleanUp()
  }
})

describe('a local-host killed with -9', () => {
  it('leaves its services running; the next one adopts them without a restart', async () => {
    const first = await startProgram()
    const port = await deployWeb()
    const before = await ask(port)
    await end(first, 'SIGKILL')
    expect((await ask(port)).pid).toBe(before.pid)
    await startProgram()
    const install = await machine.install('acme')
    const adopted = await until('healthy', async () => {
      const web = await install.getService('web')
      return web.state === 'healthy' && web
    })
    expect(adopted).toMatchObject({ pid: before.pid, restarts: 0, lastExit: null })
    expect((await ask(port)).pid).toBe(before.pid)
    const again = await install.putService('web', webService(machine, port), { waitSeconds: 10 })
    expect(again).toMatchObject({ changed: false, outcome: 'healthy', unit: { pid: before.pid } })
  })

  it('restarts an adopted service that ends, and what ended while nobody looked', async () => {
    const first = await startProgram()
    const port = await deployWeb()
    const original = await ask(port)
    await end(first, 'SIGKILL')
    process.kill(original.pid, 'SIGKILL')
    await until('the port is free', () => isPortFree(port))
    const second = await startProgram()
    const back = await until('it is back', () => ask(port).catch(() => undefined))
    await end(second, 'SIGKILL')
    await startProgram()
    process.kill(back.pid, 'SIGKILL')
    const third = await until('it is back again', async () => {
      const answer = await ask(port).catch(() => undefined)
      return answer?.pid !== back.pid && answer
    })
    expect(new Set([original.pid, back.pid, third.pid]).size).toBe(3)
  })

  it('never starts a service twice, wherever in a deploy it died', async () => {
    const port = 30_000 + Math.floor(Math.random() * 2000)
    for (let round = 0; round < 6; round += 1) {
      const host = await startProgram()
      const admin = await machine.admin()
      await admin.putInstall('acme', {})
      const install = await machine.install('acme')
      const change = install.putService('web', webService(machine, port, { TEXT: `round ${round}` }))
      await Promise.race([change.catch(() => undefined), new Promise((go) => setTimeout(go, round * 8))])
      await end(host, 'SIGKILL')
      await change.catch(() => undefined)
    }
    await startProgram()
    const install = await machine.install('acme')
    const last = webService(machine, port, { TEXT: 'last' })
    const result = await install.putService('web', last, { waitSeconds: 10 })
    expect(result.outcome).toBe('healthy')
    expect(await countServers()).toBe(1)
    expect(await ask(port)).toEqual({ pid: result.unit.pid, text: 'last' })
  })

  it('kills what is left of a group whose leader died meanwhile', async () => {
    const first = await startProgram()
    await (await machine.admin()).putInstall('acme', {})
    const install = await machine.install('acme')
    const spec: UnitSpecInput = {
      command: ['sh', '-c', 'sleep 300 & echo $!; exec sleep 301'],
      health: 'none',
    }
    const { unit } = await install.putService('pair', spec, { waitSeconds: 10 })
    const helper = Number((await install.serviceLogs('pair')).at(-1))
    await end(first, 'SIGKILL')
    process.kill(unit.pid ?? 0, 'SIGKILL')
    expect(isRunning(helper)).toBe(true)
    await startProgram()
    await until('the helper is gone', async () => !(await isAlive(helper)))
  })
})

describe('a local-host asked to stop', () => {
  it('stops everything it started; the next one brings everything back', async () => {
    const first = await startProgram()
    const port = await deployWeb()
    const admin = await machine.admin()
    const idle: UnitSpecInput = { command: ['sleep', '300'], health: 'none' }
    await admin.putInstall('acme', { registry: idle }, { waitSeconds: 10 })
    const stranger = spawn('sleep', ['300'])
    const { pid } = await ask(port)
    await end(first, 'SIGTERM')
    expect(first.exitCode).toBe(0)
    expect(isRunning(pid)).toBe(false)
    expect(isRunning(stranger.pid ?? 0)).toBe(true)
    stranger.kill()
    await startProgram()
    await until('the service answers', () => ask(port).catch(() => undefined))
    await until('the unit is healthy', async () => {
      const { units } = await (await machine.admin()).getInstall('acme')
      return units[0]?.state === 'healthy'
    })
    expect(await (await machine.install('acme')).allocatePort('web.http')).toBe(port)
  })

  it('leaves nothing running when the signal comes during its start', async () => {
    const first = await startProgram()
    const port = await deployWeb()
    await end(first, 'SIGTERM')
    const second = spawn(process.execPath, [program, '--dir', machine.dir], { stdio: 'ignore' })
    children.push(second)
    const started = join(machine.dir, 'installs/acme/services/web/process')
    await until('the service was started', () => readFile(started).catch(() => undefined))
    await end(second, 'SIGTERM')
    expect(second.exitCode).toBe(0)
    expect(await isPortFree(port)).toBe(true)
  })

  it('answers those who still wait', async () => {
    const host = await startProgram()
    await (await machine.admin()).putInstall('acme', {})
    const install = await machine.install('acme')
    const sick = webService(machine, await install.allocatePort('web.http'), { SICK: '/' })
    const waiting = install.putService('web', sick, { waitSeconds: 60 })
    await until('it runs', async () => (await install.listServices())[0]?.pid)
    await end(host, 'SIGTERM')
    expect((await waiting).outcome).toBe('superseded')
  })

  it('refuses to serve a folder that another one serves', async () => {
    await startProgram()
    const second = spawn(process.execPath, [program, '--dir', machine.dir])
    children.push(second)
    let text = ''
    second.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await once(second, 'close')
    expect(second.exitCode).toBe(1)
    expect(text).toContain('Another local-host')
  })
})

describe('a broken desired state', () => {
  it('is set aside and reported; its process goes on and everything else works', async () => {
    const first = await startProgram()
    const port = await deployWeb()
    const { pid } = await ask(port)
    await end(first, 'SIGKILL')
    const folder = join(machine.dir, 'installs/acme/services/web')
    await writeFile(join(folder, 'unit.json'), '{"format": 1, "versi')
    await writeFile(join(machine.dir, 'installs/acme/ports.json'), '[]')
    await startProgram()
    const { problems } = await (await machine.admin()).getInstall('acme')
    expect(problems).toHaveLength(2)
    expect((await readdir(folder)).some((name) => name.startsWith('unit.json.broken-'))).toBe(true)
    expect((await ask(port)).pid).toBe(pid)
    const install = await machine.install('acme')
    const result = await install.putService('web', webService(machine, port), { waitSeconds: 10 })
    expect(result).toMatchObject({ outcome: 'healthy', changed: true })
    expect(await countServers()).toBe(1)
  })
})

describe('a folder with a long name', () => {
  it('gets its sockets in a short one, named in admin.path', async () => {
    const dir = join(machine.dir, 'x'.repeat(120))
    const host = await startProgram(dir)
    const socketPath = (await readFile(join(dir, 'admin.path'), 'utf8')).trim()
    expect(socketPath.length).toBeLessThan(100)
    expect(await createLocalHostClient({ socketPath }).listInstalls()).toEqual([])
    await end(host, 'SIGTERM')
    await rm(join(socketPath, '..'), { recursive: true })
  })
})

async function startProgram(dir = machine.dir): Promise<ChildProcess> {
  const child = spawn(process.execPath, [program, '--dir', dir], { stdio: ['ignore', 'pipe', 'ignore'] })
  children.push(child)
  await once(child.stdout, 'data')
  return child
}

async function deployWeb(): Promise<number> {
  await (await machine.admin()).putInstall('acme', {})
  const install = await machine.install('acme')
  const port = await install.allocatePort('web.http')
  const result = await install.putService('web', webService(machine, port), { waitSeconds: 10 })
  expect(result.outcome).toBe('healthy')
  return port
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill(signal)
  await gone
  if (signal === 'SIGTERM' && child.exitCode !== 0) throw new Error('The local-host did not stop in order')
}

async function countServers(): Promise<number> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(
    pids.map(async (pid) => {
      const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      const env = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
      return command.startsWith('node\0server.mjs') && env.includes(machine.dir)
    }),
  )
  return lines.filter(Boolean).length
}

/** A zombie answers to signals, so its state is looked at. */
async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  return stat !== undefined && !/\) Z /.test(stat)
}
