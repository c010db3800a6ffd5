import { describe, expect, it } from 'vitest'
import type { JobExit } from '../runtime/runtime.ts'
import { decideOutcome } from './decisions.ts'

const exit = (changes: Partial<JobExit>): JobExit => ({
  reason: 'completed',
  exitCode: 0,
  message: 'The job ended well.',
  ...changes,
})
const said = (message: string, ok = false, data = {}) => ({ ok, message, data })
const toldToStop = said('The job was told to stop. Start it again when it should run.', false, {
  code: 'canceled',
})
const timeout = exit({ reason: 'timeout', exitCode: 1, message: 'The job was stopped at its time limit.' })
const oom = exit({
  reason: 'oom',
  exitCode: 1,
  message: 'A process of the job went past the memory limit and was killed.',
})

describe('what a job came to', () => {
  it('is its time limit when that ended it, not that it was told to stop', () => {
    expect(decideOutcome(timeout, toldToStop).message).toBe('The job was stopped at its time limit.')
    expect(decideOutcome(timeout, null).message).toBe('The job was stopped at its time limit.')
    expect(decideOutcome(timeout, said('deploy.sh ended with code 3')).message).toBe(
      'The job was stopped at its time limit. deploy.sh ended with code 3',
    )
  })

  it('is its memory limit when a child of it was killed, beside what the program saw of that', () => {
    expect(decideOutcome(oom, said('deploy.sh was ended by SIGKILL'))).toEqual({
      outcome: 'failed',
      reason: 'oom',
      exitCode: 1,
      message:
        'A process of the job went past the memory limit and was killed. deploy.sh was ended by SIGKILL',
    })
  })

  it('tells of a killed process also where the job went on and ended well', () => {
    const words = 'deploy.sh succeeded. A process of it was killed at the memory limit of the job.'
    expect(decideOutcome(exit({ memoryKills: 1 }), said('deploy.sh succeeded', true))).toMatchObject({
      outcome: 'succeeded',
      message: words,
    })
    expect(decideOutcome(exit({ memoryKills: 2 }), null).message).toBe(
      'The job ended well. 2 processes of it were killed at the memory limit of the job.',
    )
    expect(decideOutcome(exit({}), said('deploy.sh succeeded', true)).message).toBe('deploy.sh succeeded')
  })
})
