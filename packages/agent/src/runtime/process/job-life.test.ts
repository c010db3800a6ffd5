import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest'
import type { JobSpec } from '../runtime.ts'
import { jobFolder, readIdentity, readSession, writeIdentity } from './job-folder.ts'
import { requestStop } from './job-life.ts'
import { createProcessRuntime } from './process-runtime.ts'
import { identify, jobProcesses } from './processes.ts'

vi.setConfig({ testTimeout: 90_000 })

const dir = await mkdtemp(path.join(tmpdir(), 'tenon-life-'))
const never = new AbortController().signal
const open = () =>
  createProcessRuntime({ dir, log: pino({ level: 'silent' }), confine: false, useCgroups: false })
const runtime = open()

afterEach(async () => {
  for (const { jobId } of await runtime.list()) await runtime.remove(jobId)
})
afterAll(() => rm(dir, { recursive: true, force: true }))

describe('a job without its agent', () => {
  it('is killed by its launcher after the grace', async () => {
    await runtime.start(spec('stubborn', 'trap "" TERM; echo up; sleep 1000; sleep 1000'))
    for await (const _ of runtime.logs('stubborn', 0, never)) break
    await requestStop(jobFolder(dir, 'stubborn'), 1, 'canceled')
    expect(await runtime.wait('stubborn', never)).toMatchObject({ reason: 'canceled', exitCode: 137 })
  })

  it('is canceled, though it is killed before its launcher has heard of the stop', async () => {
    await runtime.start(spec('unheard', 'exec sleep 1000'))
    const folder = jobFolder(dir, 'unheard')
    const { pid = -1 } = (await readIdentity(folder)) ?? {}
    const session = (await readSession(folder)) ?? -1
    // As on a machine that is too busy for the process which hands the signal on.
    process.kill(pid, 'SIGSTOP')
    await requestStop(folder, 5, 'canceled')
    for (const one of jobProcesses([session], folder.temporary, false)) process.kill(one, 'SIGKILL')
    expect(await runtime.wait('unheard', never)).toMatchObject({ reason: 'canceled', exitCode: 137 })
  })

  it('keeps the first of two reasons to stop', async () => {
    await runtime.start(spec('twice', 'exec sleep 1000'))
    await Promise.all([runtime.stop('twice', 5, 'timeout'), runtime.stop('twice', 5, 'timeout')])
    await runtime.stop('twice', 5, 'canceled')
    expect(await runtime.wait('twice', never)).toMatchObject({ reason: 'timeout' })
  })
})

describe('a job that may have no network', () => {
  const closed = (isDemanded: boolean) => ({
    ...spec('closed', 'echo "${TENON_JOB_PROXY:-none} ${TENON_JOB_FORWARDS:-none}"'),
    network: 'internal' as const,
    ownNetwork: {
      env: { TENON_JOB_PROXY: '127.0.0.1:3128', TENON_JOB_FORWARDS: '127.0.0.1:5000' },
      openEnv: { TENON_JOB_PROXY: 'any' },
      isDemanded,
    },
  })

  it('because the customer says so is not started where nothing keeps it from one', async () => {
    const starting = runtime.start(closed(true))
    await expect(starting).rejects.toThrow(/Install bubblewrap, or change TENON_JOB_NETWORKS/)
    expect(await runtime.list()).toEqual([])
  })

  it("because it needs none has the machine's where nothing keeps it from one, with the proxy of that", async () => {
    await runtime.start(closed(false))
    expect(await runtime.wait('closed', never)).toMatchObject({ exitCode: 0 })
    let text = ''
    for await (const bytes of runtime.logs('closed', 0, never)) text += Buffer.from(bytes).toString()
    await runtime.remove('closed')
    expect(text).toBe('any none\n')
  })
})

describe('a job whose launcher was killed', () => {
  it('is gone, and nothing of it goes on', async () => {
    await runtime.start(spec('orphan', 'sleep 1000 & exec sleep 1000'))
    const folder = jobFolder(dir, 'orphan')
    const identity = await readIdentity(folder)
    const launchers = jobProcesses([identity?.pid ?? -1], folder.temporary, false)
    for (const pid of launchers) process.kill(pid, 'SIGKILL')
    expect(await runtime.wait('orphan', never)).toMatchObject({ reason: 'gone', exitCode: null })
    expect(jobProcesses([], folder.temporary, true)).toEqual([])
  })

  it('is not mistaken for a stranger that got its pid', async () => {
    await runtime.start(spec('reused', 'exit 0'))
    await runtime.wait('reused', never)
    const stranger = spawn('sleep', ['1000'], { stdio: 'ignore', detached: true })
    const folder = jobFolder(dir, 'reused')
    const identity = identify(stranger.pid ?? -1)
    await rm(path.join(folder.run, 'exit'))
    await writeIdentity(folder, { pid: stranger.pid ?? -1, startTime: '1', bootId: identity?.bootId ?? '' })
    expect(await runtime.wait('reused', never)).toMatchObject({ reason: 'gone' })
    await runtime.remove('reused')
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull()
    stranger.kill('SIGKILL')
    await once(stranger, 'exit')
  })
})

describe('an exit file that was cut short', () => {
  it.each(['', '0', '0 none'])('is no end: %j', async (torn) => {
    await runtime.start(spec('torn', 'exec sleep 1000'))
    const folder = jobFolder(dir, 'torn')
    await writeFile(path.join(folder.run, 'exit'), torn)
    expect(await runtime.attach('torn')).toMatchObject({ state: 'running' })
    await runtime.stop('torn', 5, 'canceled')
    expect(await runtime.wait('torn', never)).toMatchObject({ reason: 'canceled' })
  })

  it('tells of a job that nobody saw end, when its machine died meanwhile', async () => {
    await runtime.start(spec('dead', 'exit 0'))
    await runtime.wait('dead', never)
    const folder = jobFolder(dir, 'dead')
    await writeFile(path.join(folder.run, 'exit'), '')
    await writeIdentity(folder, { pid: 1, startTime: '1', bootId: 'the boot before' })
    for (const look of [1, 2]) {
      expect({ look, ...(await open().wait('dead', never)) }).toMatchObject({ look, reason: 'gone' })
    }
  })
})

describe('a start that was cut short', () => {
  it('is made anew', async () => {
    await mkdir(jobFolder(dir, 'cut').run, { recursive: true })
    await runtime.start(spec('cut', 'echo ran'))
    expect(await runtime.wait('cut', never)).toMatchObject({ reason: 'completed' })
    expect(await readFile(jobFolder(dir, 'cut').log, 'utf8')).toBe('ran\n')
  })

  it('is told as such when it got as far as its record', async () => {
    await runtime.start(spec('half', 'exit 0'))
    await runtime.wait('half', never)
    const { run } = jobFolder(dir, 'half')
    await Promise.all(['pid', 'exit'].map((name) => rm(path.join(run, name))))
    expect(await open().wait('half', never)).toMatchObject({ reason: 'start' })
    await open().start(spec('half', 'exit 4'))
    expect(await open().wait('half', never)).toMatchObject({ reason: 'exit', exitCode: 4 })
  })
})

describe('what lies on disk', () => {
  it('is for the own user alone and holds no content of files', async () => {
    await runtime.start({ ...spec('private', 'exit 0'), files: { token: 'very-secret' } })
    await runtime.wait('private', never)
    const folder = jobFolder(dir, 'private')
    for (const file of [folder.spec, folder.log, path.join(folder.run, 'exit')]) {
      expect((await stat(file)).mode & 0o777).toBe(0o600)
      expect(await readFile(file, 'utf8')).not.toContain('very-secret')
    }
    expect((await stat(folder.work)).mode & 0o777).toBe(0o700)
  })
})

function spec(jobId: string, script: string): JobSpec {
  return {
    jobId,
    fence: 1,
    command: ['/bin/sh', '-c', script],
    files: {},
    mounts: [],
    network: 'egress',
    env: { PATH: '/usr/bin:/bin' },
    limits: { memoryBytes: 256 << 20, cpus: 1, pids: 64, timeoutSeconds: 60, graceSeconds: 1 },
  }
}
