import type { Scenario } from '../scenario.ts'
import { SHORT_LEASE } from './shared.ts'

const untilReleased = { untilReleased: true }
const oneLife = { status: 'succeeded', reason: 'completed', fence: 1, starts: 1 } as const
const unknown = { run: 'active', waitsFor: /deploy:web: .*whether it still runs is unknown/ } as const

/** An agent is away past its lease: its job is `lost`, which means unknown, and nothing is retried. */
export const leases: Scenario[] = [
  {
    name: 'agent killed for good: the job is lost, the run waits and says why, a person settles it',
    app: { web: { deploy: untilReleased } },
    server: SHORT_LEASE,
    faults: [
      { when: { job: 'deploy:web', is: 'running' }, then: ['kill agent'] },
      { when: { job: 'deploy:web', is: 'lost' }, then: [] },
      { when: unknown, then: [{ settle: 'deploy:web', outcome: 'failed' }] },
    ],
    expect: {
      run: 'failed',
      jobs: {
        'deploy:web': { status: 'failed', reason: 'forced', message: /looked at the machine/, starts: 1 },
      },
      audit: { has: ['job.lost', 'job.failed'], hasNot: ['job.requeued', 'job.recovered'] },
      exits: { agent: -1 },
    },
  },
  {
    name: 'agent back late: its result settles the job under the same fencing number',
    app: { web: { deploy: untilReleased } },
    server: SHORT_LEASE,
    faults: [
      { when: { job: 'deploy:web', is: 'running' }, then: ['kill agent'] },
      { when: { job: 'deploy:web', is: 'lost' }, then: ['start agent'] },
      { when: { job: 'deploy:web', is: 'running' }, then: [{ release: 'web' }] },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': oneLife },
      audit: { has: ['job.lost', 'job.recovered', 'agent.reattached'], hasNot: ['job.requeued'] },
    },
  },
  {
    name: 'connection cut for longer than the lease: the job goes on, is lost meanwhile, and settles',
    app: { web: { deploy: { lines: 40, intervalMs: 20 } } },
    server: SHORT_LEASE,
    faults: [
      { when: { job: 'deploy:web', is: 'running' }, then: ['cut'] },
      { when: { job: 'deploy:web', is: 'lost' }, then: ['mend'] },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': oneLife },
      audit: { has: ['job.lost', 'job.recovered'], hasNot: ['job.requeued', 'agent.reattached'] },
    },
  },
  {
    name: 'a result that comes after a person settled the job changes nothing',
    app: { web: { deploy: untilReleased } },
    server: SHORT_LEASE,
    faults: [
      { when: { job: 'deploy:web', is: 'running' }, then: ['cut'] },
      { when: { job: 'deploy:web', is: 'lost' }, then: [{ settle: 'deploy:web', outcome: 'failed' }] },
      { when: { run: 'failed' }, then: [{ release: 'web' }, 'mend'] },
    ],
    expect: {
      run: 'failed',
      jobs: { 'deploy:web': { status: 'failed', reason: 'forced', fence: 1, starts: 1 } },
      audit: { has: ['job.lost'], hasNot: ['job.recovered'] },
    },
  },
  {
    name: 'the machine comes back without the job: it ends as gone, not as lost for ever',
    app: { web: { deploy: untilReleased } },
    server: SHORT_LEASE,
    faults: [
      { when: { job: 'deploy:web', is: 'running' }, then: ['kill agent'] },
      { when: { job: 'deploy:web', is: 'lost' }, then: [(stage) => stage.vanishJobs(), 'start agent'] },
    ],
    expect: {
      run: 'failed',
      jobs: { 'deploy:web': { status: 'failed', reason: 'gone', starts: 1 } },
      audit: { has: ['job.lost'], hasNot: ['job.requeued'] },
    },
  },
  {
    name: 'the agent comes back without its journal: what it ran is swept, the job ends as gone',
    app: { web: { deploy: untilReleased } },
    faults: [
      {
        when: { job: 'deploy:web', is: 'running' },
        then: ['kill agent', (stage) => stage.loseJournal(), 'start agent'],
      },
    ],
    expect: {
      run: 'failed',
      jobs: { 'deploy:web': { status: 'failed', reason: 'gone', starts: 1 } },
      audit: { hasNot: ['job.requeued', 'job.lost'] },
    },
  },
]
