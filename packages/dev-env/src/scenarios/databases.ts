import type { Scenario } from '../scenario.ts'
import { numbered } from './shared.ts'

const chatty = { sync: { lines: 30, intervalMs: 10 }, deploy: { lines: 80, intervalMs: 10 } }
/** No fencing number: what was given on a connection that broke meanwhile is given again under the next one, and starts once. */
const whole = { status: 'succeeded', reason: 'completed', starts: 1, log: numbered(80) } as const

/** The server's own PostgreSQL dies while everything is busy. */
export const databases: Scenario[] = [
  {
    name: 'Postgres killed under load, twice: jobs, results and logs are whole',
    ownPostgres: true,
    app: { web: chatty, api: chatty, worker: { ...chatty, needs: ['api'] } },
    prepare: (stage) => stage.putUnderLoad(),
    faults: [
      { when: { at: 'toServer', frame: 'binary', nth: 4 }, then: [(stage) => stage.killPostgres()] },
      {
        when: { at: 'toServer', frame: 'job.finished', job: 'deploy:web' },
        then: [(stage) => stage.killPostgres()],
      },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': whole, 'deploy:api': whole, 'deploy:worker': whole },
      audit: { hasNot: ['job.lost', 'job.failed', 'agent.dropped'] },
    },
  },
]
