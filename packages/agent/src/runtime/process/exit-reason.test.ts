import { describe, expect, it } from 'vitest'
import { exitReason } from './exit-reason.ts'
import type { ExitFacts } from './exit-reason.ts'

const plain: ExitFacts = { code: 0, cause: 'none', oomKills: 0, overMemory: false, stopReason: undefined }

describe('the reason of an end', () => {
  it.each<[string, Partial<ExitFacts>, string]>([
    ['a job that ended with 0', {}, 'completed'],
    ['a job that ended with another code', { code: 3 }, 'exit'],
    ['a code past 128 that no signal has', { code: 255 }, 'exit'],
    ['a job killed from outside', { code: 137 }, 'signal'],
    ['a job that the kernel killed for memory', { code: 137, oomKills: 1 }, 'oom'],
    ['a job that failed since its child was killed for memory', { code: 1, oomKills: 1 }, 'oom'],
    ['a job that lived through the kill of its child', { oomKills: 1 }, 'completed'],
    ['a job that the agent killed for memory', { code: 137, overMemory: true }, 'oom'],
    ['a job past its time limit', { code: 143, cause: 'timeout' }, 'timeout'],
    ['a canceled job that ended well', { cause: 'stopped', stopReason: 'canceled' }, 'canceled'],
    ['a job that the agent stopped at its limit', { cause: 'stopped', stopReason: 'timeout' }, 'timeout'],
    ['a stop that came after the end', { stopReason: 'canceled' }, 'completed'],
    ['a stop that came after a failure', { code: 3, stopReason: 'canceled' }, 'exit'],
    ['a stop of which its launcher heard too late', { code: 137, stopReason: 'canceled' }, 'canceled'],
    ['a limit of which its launcher heard too late', { code: 143, stopReason: 'timeout' }, 'timeout'],
    ['a fault in a job that should stop', { code: 139, stopReason: 'canceled' }, 'signal'],
    [
      'a job that memory ended before its stop did',
      { code: 137, oomKills: 1, stopReason: 'canceled' },
      'oom',
    ],
    ['a canceled job whose launcher died', { code: null, stopReason: 'canceled' }, 'canceled'],
    ['a job over memory whose launcher died', { code: null, overMemory: true }, 'oom'],
    ['a job that nobody saw end', { code: null }, 'gone'],
  ])('%s', (_, facts, reason) => {
    expect(exitReason({ ...plain, ...facts }).reason).toBe(reason)
  })

  it('says whether the job itself or a process of it was killed for memory', () => {
    expect(exitReason({ ...plain, code: 1, oomKills: 1 }).message).toContain('A process of the job went past')
    expect(exitReason({ ...plain, code: 137, oomKills: 1 }).message).toContain('The job went past')
    expect(exitReason({ ...plain, oomKills: 2 })).toMatchObject({ reason: 'completed', memoryKills: 2 })
  })
})
