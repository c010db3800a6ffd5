import type { Scenario } from '../scenario.ts'

const lines = (count: number) => Array.from({ length: count }, (_, i) => `line ${i + 1}\n`).join('')

/** Somebody is killed with -9, at an exact frame or while a job runs. */
export const deaths: Scenario[] = [
  {
    name: 'agent killed while a job runs, then restarted: not run again, log without gaps or repeats',
    app: { web: { deploy: { lines: 60, intervalMs: 25 } } },
    faults: [{ when: { at: 'toServer', frame: 'binary', nth: 3 }, then: ['kill agent', 'start agent'] }],
    expect: {
      run: 'succeeded',
      jobs: {
        'deploy:web': { status: 'succeeded', reason: 'completed', fence: 1, log: lines(60), starts: 1 },
      },
      audit: { has: ['agent.reattached', 'agent.superseded_earlier'], hasNot: ['job.requeued'] },
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
      jobs: { 'deploy:web': { status: 'succeeded', fence: 1, log: lines(5), starts: 1 } },
      audit: { hasNot: ['job.lost', 'job.requeued', 'job.stale_report'] },
    },
  },
]
