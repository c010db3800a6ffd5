import { assert, boolean, constantFrom, integer, option, property, record, string } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { JOB_END_REASONS } from '@tenon/core'
import { parseStatus } from '../wrapper.ts'
import { endOf, hasEnded } from './container-end.ts'
import type { ContainerState } from './engine.ts'

const exited: ContainerState = {
  labels: {},
  status: 'exited',
  isRunning: false,
  wasOomKilled: false,
  exitCode: 0,
  error: '',
}
const killed = { ...exited, exitCode: 137 }

describe('the end of a container', () => {
  it.each([
    ['by itself', exited, 'ready\nended none 0\n', undefined, 'completed'],
    ['with a code', { ...exited, exitCode: 3 }, 'ready\nended none 0\n', undefined, 'exit'],
    ['for memory, as Docker says', { ...killed, wasOomKilled: true }, 'ready\n', undefined, 'oom'],
    ['for memory, as only the cgroup counted', killed, 'ready\nended none 2\n', undefined, 'oom'],
    ['well though a child died of memory', exited, 'ready\nended none 1\n', undefined, 'completed'],
    ['at its time limit', { ...exited, exitCode: 143 }, 'ready\nended timeout 0\n', undefined, 'timeout'],
    ['on request', { ...exited, exitCode: 143 }, 'ready\nended stopped 0\n', 'canceled', 'canceled'],
    ['on request, by the agent itself', killed, 'ready\n', 'canceled', 'canceled'],
    ['by its own, before a stop came', exited, 'ready\nended none 0\n', 'canceled', 'completed'],
    [
      'by a stop of somebody else',
      { ...exited, exitCode: 143 },
      'ready\nended stopped 0\n',
      undefined,
      'signal',
    ],
    ['by a stranger', killed, 'ready\n', undefined, 'signal'],
    ['in a crash of the engine', exited, 'ready\n', undefined, 'gone'],
    ['without a trace', undefined, 'ready\n', undefined, 'gone'],
    ['before it began', undefined, '', undefined, 'start'],
  ] as const)('is told when it ended %s', (_, container, status, stopReason, reason) => {
    expect(endOf({ container, status: parseStatus(status), stopReason })).toMatchObject({ reason })
  })

  it('is not the state of one that was never started or runs', () => {
    expect(hasEnded({ ...exited, status: 'created' })).toBe(false)
    expect(hasEnded({ ...exited, status: 'running', isRunning: true })).toBe(false)
    expect(hasEnded(exited)).toBe(true)
  })

  it('is always one of the known reasons, whatever a job wrote into its status', () => {
    const states = record({ exitCode: integer({ min: -1, max: 255 }), wasOomKilled: boolean() })
    assert(
      property(
        string(),
        option(states, { nil: undefined }),
        constantFrom(undefined, 'canceled', 'timeout'),
        (text, state, stop) => {
          const container = state && { ...exited, ...state }
          const { reason } = endOf({
            container,
            status: parseStatus(`${text}\n`),
            stopReason: stop as undefined,
          })
          expect(JOB_END_REASONS).toContain(reason)
        },
      ),
    )
  })

  it('reads no half-written line', () => {
    expect(parseStatus('ready\nended time').ended).toBeUndefined()
    expect(parseStatus('refused No such program.\n').refused).toBe('No such program.')
  })
})
