import { auditOf } from '../expectations.ts'
import type { Scenario } from '../scenario.ts'
import type { Stage } from '../stage.ts'
import { until } from '../until.ts'
import { assert, SHORT_LEASE } from './shared.ts'

const untilReleased = { untilReleased: true }
const oneLife = { status: 'succeeded', reason: 'completed', fence: 1, starts: 1 } as const
const heldInWords = { run: 'active', waitsFor: /deploy:web: .*agent holds it: the customer paused/ } as const
const pauseBeforeTheDeploy = [
  { when: { job: 'sync:web', is: 'running' }, then: ['pause agent', { release: 'web' }] },
  { when: { job: 'deploy:web', is: 'held' }, then: [] },
] as const

const paused = (rest: Scenario['faults'] = []): NonNullable<Scenario['faults']> => [
  ...pauseBeforeTheDeploy.map(({ when, then }) => ({ when, then: [...then] })),
  ...rest,
]
const app = { web: { sync: untilReleased } }

/** The customer pauses the agent: nothing fails for having to wait. */
export const holds: Scenario[] = [
  {
    name: 'a pause lets the deploy wait, past its lease and over deaths of both sides, until it ends',
    app,
    server: SHORT_LEASE,
    faults: paused([
      { when: heldInWords, then: ['kill agent', 'start agent'] },
      { when: { job: 'deploy:web', is: 'held' }, then: ['kill server', 'start server'] },
      { when: heldInWords, then: ['cut', 'mend'] },
      { when: heldInWords, then: ['resume agent'] },
    ]),
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': oneLife },
      audit: {
        has: ['agent.paused', 'job.held', 'agent.resumed'],
        hasNot: ['job.requeued', 'job.failed', 'job.lapsed'],
      },
    },
    also: deployWasNeverLost,
  },
  {
    name: 'a held job starts when the pause ends though the server is away, and its result comes later',
    app,
    faults: paused([{ when: 'then', then: ['kill server', 'resume agent', 'start server'] }]),
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': oneLife },
      audit: { has: ['job.held'], hasNot: ['job.lost', 'job.requeued', 'job.failed', 'job.lapsed'] },
    },
  },
  {
    name: 'a pause that lasts for too long: what was held lapses, and its step asks anew',
    app,
    server: { TENON_HOLD_SECONDS: '2' },
    faults: paused([
      {
        when: 'then',
        then: [untilLapsed, 'resume agent'],
      },
    ]),
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { ...oneLife, starts: 1 } },
      audit: { has: ['job.held', 'job.lapsed'], hasNot: ['job.lost', 'job.failed'] },
    },
  },
  {
    name: 'a held job whose agent stays away lapses too, and its step asks anew',
    app,
    server: { TENON_HOLD_SECONDS: '2' },
    faults: paused([{ when: 'then', then: ['kill agent', untilLapsed, 'start agent', 'resume agent'] }]),
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { ...oneLife, starts: 1 } },
      audit: { has: ['job.held', 'job.lapsed'], hasNot: ['job.lost', 'job.failed'] },
    },
  },
  {
    name: 'a held job whose image is still pulled at its last moment to start has begun: nothing runs in its place',
    app: { web: { ...app.web, deploy: { startDelayMs: 19_000 } } },
    server: { TENON_HOLD_SECONDS: '12' },
    faults: paused([{ when: 'then', then: ['resume agent'] }]),
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': oneLife },
      audit: { has: ['job.held'], hasNot: ['job.lapsed', 'job.canceled', 'job.failed'] },
    },
  },
  {
    name: 'a held job is canceled: it never starts',
    app,
    faults: paused([
      { when: 'then', then: [{ cancel: 'deploy:web' }] },
      { when: { job: 'deploy:web', is: 'canceled' }, then: ['resume agent'] },
    ]),
    expect: {
      run: 'canceled',
      jobs: { 'deploy:web': { status: 'canceled', starts: 0 } },
      audit: { has: ['job.held', 'job.canceled'], hasNot: ['job.lost', 'job.failed'] },
    },
  },
]

/** On a slow machine the sync before it may be. */
async function deployWasNeverLost(stage: Stage): Promise<void> {
  const id = await stage.jobId('deploy:web')
  const lost = (await auditOf(stage)).some(
    ({ action, subject }) => action === 'job.lost' && subject.id === id,
  )
  assert(!lost, 'a held job was taken for lost')
}

async function untilLapsed(stage: Stage): Promise<void> {
  await until('a job to lapse', async () =>
    (await auditOf(stage)).some(({ action }) => action === 'job.lapsed'),
  )
}
