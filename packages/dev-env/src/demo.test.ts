import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { processesOf } from './leftovers.ts'
import { until } from './until.ts'

const dist = fileURLToPath(new URL('../../../dist', import.meta.url))
const PATIENCE_SECONDS = 120

let dir: string
const starts: Start[] = []
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'tenon-demo-'))
})
afterEach(async () => {
  for (const { child } of starts.splice(0)) {
    if (child.exitCode === null && child.kill('SIGINT')) await once(child, 'exit')
  }
  rmSync(dir, { recursive: true, force: true, maxRetries: 5 })
})

interface Start {
  child: ChildProcess
  text: () => string
  exited: Promise<number>
}

/** `npm start` after the build: the same program, in a folder and a home of its own. */
function start(program = 'dev-env.mjs', args: string[] = [], env: Record<string, string> = {}): Start {
  const child = spawn(process.execPath, [join(dist, program), ...args], {
    cwd: dirname(dist),
    env: { PATH: process.env['PATH'], HOME: dir, TENON_DIR: join(dir, 'data'), TENON_PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let text = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (text += chunk.toString())).on('error', () => undefined)
  const exited = once(child, 'exit').then(([code]) => Number(code ?? -1))
  const started = { child, text: () => text, exited }
  starts.push(started)
  return started
}

const tenon = async (...args: string[]) => {
  const ran = start('cli.mjs', args)
  return { code: await ran.exited, text: ran.text() }
}

async function isUp(demo: Start): Promise<void> {
  let code: number | undefined
  void demo.exited.then((ended) => (code = ended))
  await until(
    'everything to be up',
    () => demo.text().includes('Ctrl-C stops') || code !== undefined,
    PATIENCE_SECONDS,
  ).catch((cause: Error) => {
    throw new Error(`${cause.message}, after this:\n${demo.text()}`, { cause })
  })
  expect(demo.text()).toContain('Tenon is up.')
}

/** Of the one install. */
function installFolder(): string {
  const installs = join(dir, 'data', 'customer', 'installs')
  const [id = ''] = readdirSync(installs)
  return join(installs, id)
}

const agentLog = () => join(installFolder(), 'system', 'agent', 'log')

/** By its lock, which only a running agent's folder has. */
function agentFolder(): string {
  const found = readdirSync(installFolder(), { recursive: true, encoding: 'utf8' })
  const lock = found.find((path) => path.endsWith('agent.lock'))
  if (lock === undefined) throw new Error('no agent runs here')
  return dirname(join(installFolder(), lock))
}

describe('npm start', () => {
  it('holds its folder alone, takes its installs to another port, and stops though nobody reads it', async () => {
    const first = start()
    await isUp(first)
    expect(first.text()).toContain(`export TENON_DIR=${join(dir, 'data')}`)
    expect(await tenon('audit', 'verify', '--all')).toMatchObject({ code: 0 })

    const second = start()
    expect(await second.exited).toBe(1)
    expect(second.text()).toContain(`another \`npm start\` (process ${first.child.pid}) uses`)
    expect((await tenon('installs', 'show', 'first-customer')).text).toContain('connected')
    for (const name of ['server', 'build-agent', 'local-host']) {
      const record = JSON.parse(readFileSync(join(dir, 'data', 'run', `${name}.json`), 'utf8')) as {
        pid: number
      }
      process.kill(record.pid, 'SIGKILL')
      await until(
        `${name} to run again`,
        () => first.text().includes(`${name} runs again.`),
        PATIENCE_SECONDS,
      )
    }
    expect(first.text()).toContain('server ended by itself, killed by a signal; it is started again.')
    expect((await tenon('installs', 'show', 'first-customer')).code).toBe(0)
    const made = await tenon('agent', 'keygen', '--out', join(dir, 'customer.key'))
    const [to = ''] = /age1\w+/.exec(made.text) ?? []
    const out = join(dir, 'store.age')
    const exported = await tenon('agent', 'export', '--dir', agentFolder(), '--to', to, '--out', out)
    expect(exported).toMatchObject({ code: 0 })
    expect(readFileSync(out, 'latin1')).toMatch(/^age-encryption/)
    first.child.kill('SIGINT')
    expect(await first.exited).toBe(0)
    expect(processesOf(dir)).toEqual([])

    const third = start()
    await isUp(third)
    expect(third.text()).toContain('the install goes with it to this address')
    await until(
      'the agent of the install to be back',
      async () => / connected, /.test((await tenon('installs', 'show', 'first-customer')).text),
      PATIENCE_SECONDS,
    )
    third.child.stdout!.destroy()
    third.child.stderr!.destroy()
    const agent = (JSON.parse((await tenon('agent', 'list', '--json')).text) as { items: unknown[] }).items
    expect(agent).toHaveLength(3)
    third.child.kill('SIGHUP')
    expect(await third.exited).toBe(0)
    expect(processesOf(dir)).toEqual([])
  }, 400_000)

  it('deploys with the networks of jobs closed as the docs show', async () => {
    const demo = start('dev-env.mjs', [], { TENON_JOB_NETWORKS: 'action=none,deploy=internal' })
    await isUp(demo)
    expect((await tenon('deploy', 'first-customer')).code).toBe(0)
    const log = readFileSync(agentLog(), 'utf8')
    expect(log).toContain('none, which is now called internal')
    expect(log).toContain('a job connects out')
  }, 400_000)

  it('says what is wrong with its port or its folder', async () => {
    const port = start('dev-env.mjs', [], { TENON_PORT: 'abc' })
    expect(await port.exited).toBe(1)
    expect(port.text()).toBe(
      'error: TENON_PORT is "abc": expected a whole number from 0 to 65535\nnext: set it to a free port, or leave it out for 7080.\n',
    )
    const lease = start('dev-env.mjs', [], { TENON_LEASE_SECONDS: '1' })
    expect(await lease.exited).toBe(1)
    expect(lease.text()).toContain('error: a lease must last for at least two heartbeats')
    rmSync(join(dir, 'data'), { recursive: true })
    writeFileSync(join(dir, 'data'), 'a file')
    const folder = start()
    expect(await folder.exited).toBe(1)
    expect(folder.text()).toMatch(/error: the data folder .+ cannot be used \(EEXIST\)\nnext: .+TENON_DIR/)
    expect(readFileSync(join(dir, 'data'), 'utf8')).toBe('a file')
  }, 60_000)
})
