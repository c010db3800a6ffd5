import type { Scenario } from '../scenario.ts'
import { numbered } from './shared.ts'

const untilReleased = { untilReleased: true }
const oneLife = { status: 'succeeded', reason: 'completed', fence: 1, starts: 1 } as const

/** Somebody is killed with -9, at an exact frame or while a job runs. */
export const deaths: Scenario[] = [
  {
    name: 'agent killed while a job runs, then restarted: not run again, log without gaps or repeats',
    app: { web: { deploy: { lines: 60, intervalMs: 25 } } },
    faults: [{ when: { at: 'toServer', frame: 'binary', nth: 3 }, then: ['kill agent', 'start agent'] }],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { ...oneLife, log: numbered(60) } },
      audit: { has: ['agent.reattached', 'agent.superseded_earlier'], hasNot: ['job.requeued', 'job.lost'] },
    },
  },
  {
    name: 'agent killed when its result is on the way',
    app: { web: { deploy: { lines: 5 } } },
    faults: [
      {
        when: { at: 'toServer', frame: 'job.finished', job: 'deploy:web', drop: true },
        then: ['kill agent', 'start agent'],
      },
    ],
    expect: { run: 'succeeded', jobs: { 'deploy:web': { ...oneLife, log: numbered(5) } } },
  },
  {
    name: 'server killed before the job is assigned',
    app: { api: { sync: untilReleased }, web: {} },
    agent: { slots: 1 },
    faults: [
      { when: { job: 'sync:api', is: 'running' }, then: [] },
      {
        when: { job: 'sync:web', is: 'queued' },
        then: ['kill server', 'start server', { release: 'api' }],
      },
    ],
    expect: { run: 'succeeded', jobs: { 'sync:api': oneLife, 'sync:web': oneLife, 'deploy:web': oneLife } },
  },
  {
    name: 'server killed after it assigned the job, before the agent hears of it',
    app: { web: {} },
    faults: [
      {
        when: { at: 'toAgent', frame: 'job.assign', job: 'deploy:web', drop: true },
        then: ['kill server', 'start server'],
      },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { ...oneLife, fence: 2 } },
      audit: { has: ['job.requeued'], hasNot: ['job.lost', 'job.stale_report'] },
    },
  },
  {
    name: 'server killed after the agent has the job',
    app: { web: { deploy: { lines: 30, intervalMs: 20 } } },
    faults: [
      {
        when: { at: 'toServer', frame: 'job.accepted', job: 'deploy:web', drop: true },
        then: ['kill server', 'start server'],
      },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { ...oneLife, log: numbered(30) } },
      audit: { hasNot: ['job.requeued', 'job.lost', 'job.stale_report'] },
    },
  },
  {
    name: 'server killed before the result is stored',
    app: { web: { deploy: { lines: 5 } } },
    faults: [
      {
        when: { at: 'toServer', frame: 'job.finished', job: 'deploy:web', drop: true },
        then: ['kill server', 'start server'],
      },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { ...oneLife, log: numbered(5) } },
      audit: { hasNot: ['job.lost', 'job.requeued', 'job.stale_report'] },
    },
  },
  {
    name: 'server killed after the result is stored, before the agent hears of it',
    app: { web: { deploy: { lines: 5 } } },
    faults: [
      {
        when: { at: 'toAgent', frame: 'job.settled', job: 'deploy:web', drop: true },
        then: ['kill server', 'start server'],
      },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { ...oneLife, log: numbered(5) } },
      audit: { hasNot: ['job.lost', 'job.requeued', 'job.stale_report'] },
    },
  },
  {
    name: 'server and agent killed while a job runs',
    app: { web: { deploy: { lines: 60, intervalMs: 25 } } },
    faults: [
      {
        when: { at: 'toServer', frame: 'binary', nth: 3 },
        then: ['kill server', 'kill agent', 'start server', 'start agent'],
      },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { ...oneLife, log: numbered(60) } },
      audit: { has: ['agent.reattached'], hasNot: ['job.requeued', 'job.lost'] },
    },
  },
]
