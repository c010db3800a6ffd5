import { appendFile, mkdtemp, open, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { boundLog } from './bound-log.ts'
import { createProcessRuntime } from './process/process-runtime.ts'

const MB = 1_000_000
let dir: string

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'tenon-bound-'))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

const onDisk = async (file: string) => (await stat(file)).blocks * 512

describe('the log of a job on the disk', () => {
  it('past its bound takes no room, and whoever writes it goes on at its end', async () => {
    const file = path.join(dir, 'log')
    await appendFile(file, Buffer.alloc(20 * MB, 'a'))
    expect(await boundLog(file, MB)).toBe(20 * MB)
    expect(await onDisk(file)).toBeLessThan(2 * MB)
    await appendFile(file, 'more')
    expect(await boundLog(file, MB)).toBe(20 * MB + 4)
    const handle = await open(file)
    const { buffer } = await handle.read(Buffer.alloc(MB), 0, MB, 0)
    await handle.close()
    expect(buffer.equals(Buffer.alloc(MB, 'a'))).toBe(true)
  })

  it('within its bound is left alone, and one that is not there has no size', async () => {
    const file = path.join(dir, 'log')
    await appendFile(file, Buffer.alloc(MB, 'a'))
    expect(await boundLog(file, 2 * MB)).toBe(MB)
    expect(await onDisk(file)).toBeGreaterThanOrEqual(MB)
    expect(await boundLog(path.join(dir, 'absent'), MB)).toBe(0)
  })

  it('of a process that prints without end stays small while it prints', { timeout: 60_000 }, async () => {
    const runtime = createProcessRuntime({ dir: path.join(dir, 'jobs'), log: pino({ level: 'silent' }) })
    const limits = { memoryBytes: 256 << 20, cpus: 1, pids: 64, timeoutSeconds: 50, graceSeconds: 0 }
    const command = ['/bin/sh', '-c', 'yes']
    const env = { PATH: '/usr/bin:/bin' }
    await runtime.start({
      jobId: 'noisy',
      fence: 1,
      command,
      env,
      files: {},
      mounts: [],
      network: 'egress',
      limits,
    })
    let size = 0
    while (size < 50 * MB) size = (await runtime.boundLog?.('noisy', MB)) ?? size
    await runtime.stop('noisy', 0, 'canceled')
    const total = await runtime.boundLog?.('noisy', MB)
    expect(total).toBeGreaterThanOrEqual(size)
    expect(await onDisk(path.join(dir, 'jobs', 'noisy', 'log'))).toBeLessThan(10 * MB)
    await runtime.remove('noisy')
  })
})
