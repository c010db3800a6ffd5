import { assert, integer, property, string } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { judgeFolder } from './data-folder.ts'
import { startFailed } from './errors.ts'
import { parsePidFile } from './pid-file.ts'
import { identify, isAlive, parseStat } from './process-table.ts'
import { backoffMs } from './supervise.ts'

describe('parsePidFile', () => {
  it('reads pid, port and status', () => {
    const text = '4711\n/data\n1794774772\n5433\n\n127.0.0.1\n 16039942         4\nready   \n'
    expect(parsePidFile(text)).toEqual({ pid: 4711, port: 5433, status: 'ready' })
  })

  it('reads one that is still being written', () => {
    expect(parsePidFile('4711\n/data\n')).toEqual({ pid: 4711, port: undefined, status: undefined })
  })

  it('never fails, and never names a pid that is no pid', () => {
    assert(
      property(string(), (text) => {
        const parsed = parsePidFile(text)
        expect(parsed === undefined || (Number.isSafeInteger(parsed.pid) && parsed.pid > 0)).toBe(true)
      }),
    )
  })
})

describe('judgeFolder', () => {
  it('takes an absent or empty folder as new, also on a fresh file system', () => {
    expect(judgeFolder('/d', { entries: undefined, version: undefined }, '18')).toBe('new')
    expect(judgeFolder('/d', { entries: [], version: undefined }, '18')).toBe('new')
    expect(judgeFolder('/d', { entries: ['lost+found'], version: undefined }, '18')).toBe('new')
  })

  it('takes a whole database of the same version as it is', () => {
    const entries = ['PG_VERSION', 'base', 'global', 'pg_wal']
    expect(judgeFolder('/d', { entries, version: '18' }, '18')).toBe('cluster')
  })
})

describe('a process', () => {
  it('is told from another one with the same pid', () => {
    const self = identify(process.pid)
    expect(self !== undefined && isAlive(self)).toBe(true)
    expect(isAlive({ pid: process.pid, startedAt: 'earlier' })).toBe(false)
    expect(identify(0)).toBe(undefined)
  })

  it('is read whatever its name is', () => {
    assert(
      property(string(), integer({ min: 0 }), (name, tick) => {
        const stat = `12 (${name}) S ${'0 '.repeat(18)}${tick} 0 0`
        expect(parseStat(stat)).toEqual({ state: 'S', startTick: String(tick) })
      }),
    )
  })
})

describe('the rest', () => {
  it('waits longer after each failed restart, up to ten seconds', () => {
    expect([1, 2, 3, 8, 50].map(backoffMs)).toEqual([100, 200, 400, 10_000, 10_000])
  })

  it('knows a lost race for the port from the last words', () => {
    const words = 'LOG:  could not bind IPv4 address "127.0.0.1": Address already in use'
    expect(startFailed(5432, words).code).toBe('postgres_port_in_use')
    expect(startFailed(5432, 'FATAL:  no').message).toContain('FATAL:  no')
  })
})
