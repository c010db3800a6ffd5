import type { Scenario } from '../scenario.ts'
import { assert, numbered } from './shared.ts'

/** Every way a job can end by itself while nothing around it breaks. */
export const jobEnds: Scenario[] = [
  {
    name: 'success: components in their order, logs complete',
    app: {
      web: { needs: ['api'], deploy: { lines: 20, intervalMs: 5 } },
      api: { deploy: { text: 'hello\n' } },
    },
    expect: {
      run: 'succeeded',
      jobs: {
        'sync:web': { status: 'succeeded', reason: 'completed', starts: 1 },
        'deploy:api': { status: 'succeeded', reason: 'completed', exitCode: 0, log: 'hello\n', starts: 1 },
        'deploy:web': { status: 'succeeded', reason: 'completed', fence: 1, log: numbered(20), starts: 1 },
      },
      audit: {
        has: ['agent.enrolled', 'agent.connected', 'run.created', 'job.queued', 'job.assigned', 'run.ended'],
        hasNot: ['job.lost', 'job.requeued', 'job.failed', 'job.stale_report'],
      },
    },
  },
  {
    name: 'a job exits non-zero: the run fails, what needs it never starts',
    app: { api: { deploy: { exitCode: 3, text: 'no database\n' } }, web: { needs: ['api'] } },
    expect: {
      run: 'failed',
      jobs: {
        'deploy:api': { status: 'failed', reason: 'exit', exitCode: 3, log: 'no database\n', starts: 1 },
      },
      audit: { has: ['job.failed', 'run.ended'], hasNot: ['job.lost'] },
    },
    async also(stage) {
      const { steps } = await stage.run()
      const web = steps.find((step) => step.key === 'deploy:web')
      assert(web?.status === 'canceled' && web.jobId === null, `deploy:web is ${web?.status}`)
    },
  },
  {
    name: 'out of memory',
    app: { web: { deploy: { reason: 'oom' } } },
    expect: { run: 'failed', jobs: { 'deploy:web': { status: 'failed', reason: 'oom', starts: 1 } } },
  },
  {
    name: 'timeout',
    app: { web: { deploy: { untilReleased: true }, limits: { timeoutSeconds: 1, graceSeconds: 1 } } },
    expect: { run: 'failed', jobs: { 'deploy:web': { status: 'failed', reason: 'timeout', starts: 1 } } },
  },
  {
    name: 'start failure',
    app: { web: { deploy: { startFailure: 'start' } } },
    expect: { run: 'failed', jobs: { 'deploy:web': { status: 'failed', reason: 'start', starts: 0 } } },
  },
  {
    name: 'its image cannot be had',
    app: { web: { deploy: { startFailure: 'image' } } },
    expect: { run: 'failed', jobs: { 'deploy:web': { status: 'failed', reason: 'image', starts: 0 } } },
  },
  {
    name: 'a job vanishes without a trace',
    app: { web: { deploy: { untilReleased: true, vanishesAfterMs: 100 } } },
    expect: { run: 'failed', jobs: { 'deploy:web': { status: 'failed', reason: 'gone', starts: 1 } } },
  },
]
