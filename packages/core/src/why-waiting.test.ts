import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AGENT_ROLES, jobStates } from './states.ts'
import { whyJobWaits, whyRunWaits, type JobFacts } from './why-waiting.ts'

const at = fc.constantFrom('2026-11-15T10:00:00.000Z', '2026-11-15T11:00:00.000Z')
const anyJob: fc.Arbitrary<JobFacts> = fc.record({
  status: fc.constantFrom(...jobStates.states),
  createdAt: at,
  assignedAt: fc.option(at),
  leaseUntil: fc.option(at),
  cancelRequestedAt: fc.option(at),
  target: fc.record({ role: fc.constantFrom(...AGENT_ROLES), installId: fc.option(fc.constant('ins_1')) }),
  agents: fc.array(
    fc.record({
      id: fc.constant('agt_1'),
      connected: fc.boolean(),
      lastSeenAt: fc.option(at),
      slots: fc.nat(3),
      running: fc.nat(3),
    }),
    { maxLength: 3 },
  ),
  ahead: fc.nat(5),
})

describe('whyJobWaits', () => {
  it('always answers for a job that is queued, assigned or lost: what for, since when', () => {
    fc.assert(
      fc.property(anyJob, (job) => {
        fc.pre(['queued', 'assigned', 'lost'].includes(job.status))
        const answer = whyJobWaits(job)
        expect(answer?.code).toMatch(/^[a-z_]+$/)
        expect(answer?.message).toMatch(/^[A-Z].*\.$/)
        expect(answer?.message).not.toMatch(/undefined|null|NaN/)
        expect(Number.isNaN(Date.parse(answer?.since ?? ''))).toBe(false)
      }),
    )
  })

  it('has no answer for a job that ended', () => {
    fc.assert(
      fc.property(anyJob, (job) => {
        fc.pre(jobStates.isEnd(job.status))
        expect(whyJobWaits(job)).toBeUndefined()
      }),
    )
  })

  it('says what a queued job waits for', () => {
    const job: JobFacts = {
      status: 'queued',
      createdAt: '2026-11-15T10:00:00.000Z',
      assignedAt: null,
      leaseUntil: null,
      cancelRequestedAt: null,
      target: { role: 'install', installId: 'ins_1' },
      agents: [],
      ahead: 0,
    }
    const agent = { id: 'agt_1', connected: true, lastSeenAt: null, slots: 1, running: 0 }
    const code = (agents: JobFacts['agents']) => whyJobWaits({ ...job, agents })?.code
    expect(code([])).toBe('no_agent')
    expect(code([{ ...agent, connected: false }])).toBe('agent_away')
    expect(code([{ ...agent, running: 1 }])).toBe('no_free_slot')
    expect(code([{ ...agent, running: 1 }, agent])).toBe('dispatching')
    expect(whyJobWaits({ ...job, status: 'running' })).toBeUndefined()
    expect(whyJobWaits({ ...job, status: 'running', cancelRequestedAt: job.createdAt })?.code).toBe(
      'canceling',
    )
  })
})

describe('whyRunWaits', () => {
  const since = '2026-11-15T10:00:00.000Z'

  it('names the run ahead, the agent that has not come, and what each active job waits for', () => {
    const queued = { status: 'queued' as const, createdAt: since, activeSteps: [], retries: [] }
    expect(whyRunWaits({ ...queued, blockedBy: null })).toMatchObject([{ code: 'starting' }])
    const [behind] = whyRunWaits({ ...queued, blockedBy: { runId: 'run_1', kind: 'provision' } })
    expect(behind).toMatchObject({ code: 'run_ahead', remedy: expect.stringContaining('run_1') as unknown })
    const job = { code: 'lost', message: 'Unknown.', since, remedy: null }
    const waits = whyRunWaits({
      status: 'active',
      createdAt: since,
      blockedBy: null,
      activeSteps: [
        { key: 'agent', kind: 'agent', since, job: undefined },
        { key: 'deploy:web', kind: 'deploy', since, job },
        { key: 'deploy:db', kind: 'deploy', since, job: undefined },
        { key: 'approval:db', kind: 'approval', since, job: undefined },
      ],
      retries: [{ key: 'sync:db', attempts: 2, notBefore: since, since, message: 'exit code 1' }],
    })
    expect(waits.map((w) => [w.code, w.message])).toEqual([
      ['agent_enrolling', 'The install agent has not connected yet.'],
      ['lost', 'deploy:web: Unknown.'],
      ['approval', 'approval:db: somebody must approve the plan.'],
      ['retrying', `sync:db failed 2 times (exit code 1) and is tried again at ${since}.`],
    ])
    expect(whyRunWaits({ ...queued, status: 'failed', blockedBy: null })).toEqual([])
  })
})
