import type { Scenario } from '../scenario.ts'
import { roomForOne } from './shared.ts'

const untilReleased = { untilReleased: true }
const neverStarted = {
  status: 'canceled',
  reason: 'canceled',
  message: /before it started/,
  starts: 0,
} as const

/** A canceled job ends as canceled; one that did not start yet never does. */
export const cancels: Scenario[] = [
  {
    name: 'cancel before an agent has it',
    app: { api: { sync: untilReleased }, web: {} },
    agent: { slots: 1 },
    faults: [
      { when: { job: 'sync:api', is: 'running' }, then: [] },
      { when: { job: 'sync:web', is: 'queued' }, then: [{ cancel: 'sync:web' }, { release: 'api' }] },
    ],
    expect: {
      run: 'canceled',
      jobs: {
        'sync:web': neverStarted,
        'sync:api': { status: 'succeeded' },
        'deploy:api': { status: 'succeeded' },
      },
      audit: { has: ['job.canceled'], hasNot: ['job.cancel_requested'] },
    },
  },
  {
    name: 'cancel while it runs',
    app: { web: { deploy: { ...untilReleased, stopText: 'stopping\n' } } },
    faults: [{ when: { job: 'deploy:web', is: 'running' }, then: [{ cancel: 'deploy:web' }] }],
    expect: {
      run: 'canceled',
      jobs: { 'deploy:web': { status: 'canceled', reason: 'canceled', log: 'stopping\n', starts: 1 } },
      audit: { has: ['job.cancel_requested', 'job.canceled'] },
    },
  },
  {
    name: 'the cancel reaches the agent before it starts the job',
    app: { api: { sync: untilReleased }, web: {} },
    agent: roomForOne,
    faults: [
      { when: { job: 'sync:api', is: 'running' }, then: [] },
      { when: { at: 'toServer', frame: 'job.accepted', job: 'sync:web' }, then: [] },
      { when: 'then', then: [{ cancel: 'sync:web' }] },
      { when: { job: 'sync:web', is: 'canceled' }, then: [{ release: 'api' }] },
    ],
    expect: {
      run: 'canceled',
      jobs: { 'sync:web': neverStarted, 'deploy:api': { status: 'succeeded' } },
      audit: { has: ['job.cancel_requested', 'job.canceled'] },
    },
  },
  {
    name: 'canceled while the agent that accepted it is away: it never starts',
    app: { api: { sync: untilReleased }, web: {} },
    agent: roomForOne,
    faults: [
      { when: { job: 'sync:api', is: 'running' }, then: [] },
      { when: { at: 'toServer', frame: 'job.accepted', job: 'sync:web' }, then: [] },
      { when: 'then', then: ['cut', { cancel: 'sync:web' }, 'mend'] },
      { when: { job: 'sync:web', is: 'canceled' }, then: [{ release: 'api' }] },
    ],
    expect: { run: 'canceled', jobs: { 'sync:web': neverStarted, 'deploy:api': { status: 'succeeded' } } },
  },
  {
    name: 'canceled while its agent is dead: it never starts',
    app: { api: { sync: untilReleased }, web: {} },
    agent: roomForOne,
    faults: [
      { when: { job: 'sync:api', is: 'running' }, then: [] },
      { when: { at: 'toServer', frame: 'job.accepted', job: 'sync:web' }, then: [] },
      { when: 'then', then: ['kill agent', { cancel: 'sync:web' }, 'start agent'] },
      { when: { job: 'sync:web', is: 'canceled' }, then: [{ release: 'api' }] },
    ],
    expect: {
      run: 'canceled',
      jobs: { 'sync:web': neverStarted, 'sync:api': { status: 'succeeded', starts: 1 } },
    },
  },
  {
    name: 'canceled before the agent hears of it: it never starts',
    app: { web: {} },
    faults: [
      {
        when: { at: 'toAgent', frame: 'job.assign', job: 'deploy:web', drop: true },
        then: ['cut', { cancel: 'deploy:web' }, 'mend'],
      },
    ],
    expect: { run: 'canceled', jobs: { 'deploy:web': neverStarted } },
  },
]
