import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AGENT_ROLES, JOB_KINDS, jobStates } from './states.ts'
import { whyJobWaits, whyRunWaits, type JobFacts } from './why-waiting.ts'

const at = fc.constantFrom('2026-11-15T10:00:00.000Z', '2026-11-15T11:00:00.000Z')
const anyJob: fc.Arbitrary<JobFacts> = fc.record({
  status: fc.constantFrom(...jobStates.states),
  kind: fc.constantFrom(...JOB_KINDS),
  hold: fc.record({
    reason: fc.constant('the customer paused it'),
    until: fc.option(at),
    since: at,
    startBefore: at,
  }),
  said: fc.option(fc.constant('all 4 slots are taken')),
  createdAt: at,
  assignedAt: fc.option(at),
  leaseUntil: fc.option(at),
  cancelRequestedAt: fc.option(at),
  target: fc.record({
    role: fc.constantFrom(...AGENT_ROLES),
    installId: fc.option(fc.constant('ins_1')),
    install: fc.option(fc.constant('acme')),
  }),
  requires: fc.subarray([
    { feature: 'network', since: '0.2' },
    { feature: 'later', since: '' },
  ]),
  agents: fc.array(
    fc.record({
      id: fc.constant('agt_1'),
      connected: fc.boolean(),
      lastSeenAt: fc.option(at),
      slots: fc.nat(3),
      interactiveSlots: fc.nat(2),
      features: fc.option(fc.subarray(['network', 'later'])),
      holding: fc.array(
        fc.record({ jobId: fc.constantFrom('job_1', 'job_2'), kind: fc.constantFrom(...JOB_KINDS) }),
        { maxLength: 5 },
      ),
    }),
    { maxLength: 3 },
  ),
  formerAgents: fc.nat(2),
  ahead: fc.nat(5),
})

describe('whyJobWaits', () => {
  it('always answers for a job that is queued, assigned, held or lost: what for, since when', () => {
    fc.assert(
      fc.property(anyJob, (job) => {
        fc.pre(['queued', 'assigned', 'held', 'lost'].includes(job.status))
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
      kind: 'deploy',
      hold: null,
      said: null,
      createdAt: '2026-11-15T10:00:00.000Z',
      assignedAt: null,
      leaseUntil: null,
      cancelRequestedAt: null,
      target: { role: 'install', installId: 'ins_1', install: 'acme' },
      requires: [],
      agents: [],
      formerAgents: 0,
      ahead: 0,
    }
    const agent: JobFacts['agents'][number] = {
      id: 'agt_1',
      connected: true,
      lastSeenAt: null,
      slots: 1,
      interactiveSlots: 0,
      features: null,
      holding: [],
    }
    const busy = { ...agent, holding: [{ jobId: 'job_1', kind: 'deploy' as const }] }
    const code = (agents: JobFacts['agents']) => whyJobWaits({ ...job, agents })?.code
    expect(code([])).toBe('no_agent')
    expect(code([{ ...agent, connected: false }])).toBe('agent_away')
    expect(code([busy])).toBe('no_free_slot')
    expect(whyJobWaits({ ...job, agents: [busy] })?.message).toContain('busy with deploy job_1')
    const words = (change: Partial<JobFacts>) => whyJobWaits({ ...job, ...change })?.message
    expect(words({})).toBe('No agent has enrolled yet: it needs the agent of install acme.')
    expect(words({ formerAgents: 1 })).toBe(
      'No agent is enrolled any more: it needs the agent of install acme, and the one that there was is revoked or replaced.',
    )
    expect(whyJobWaits(job)?.remedy).toBe('Start one with a token of `tenon installs join-token acme`.')
    const build = { role: 'build' as const, installId: null, install: null }
    expect(whyJobWaits({ ...job, target: build })?.remedy).toContain('`tenon agent join-token --role build`')
    expect(words({ agents: [agent], ahead: 0 })).toBe('It is next in line for the agent of install acme.')
    expect(words({ agents: [agent], ahead: 2 })).toBe(
      'It waits for the agent of install acme; 2 jobs are ahead.',
    )
    expect(words({ formerAgents: 2 })).toContain('all 2 that there were are revoked or replaced.')
    expect(words({ agents: [busy], ahead: 0 })).toContain('; it is the next.')
    expect(words({ agents: [busy], ahead: 1 })).toContain('; one job is ahead.')
    expect(words({ agents: [busy], ahead: 5 })).toContain('; 5 jobs are ahead.')
    expect(code([busy, agent])).toBe('dispatching')
    const reserving = { ...busy, interactiveSlots: 1 }
    expect(code([reserving])).toBe('no_free_slot')
    expect(whyJobWaits({ ...job, kind: 'debug', agents: [reserving] })?.code).toBe('dispatching')
    expect(whyJobWaits({ ...job, kind: 'debug', agents: [busy] })?.code).toBe('no_free_slot')
    const held = { ...job, status: 'assigned' as const }
    expect(whyJobWaits(held)?.code).toBe('agent_starting')
    expect(whyJobWaits({ ...held, said: 'all 4 slots are taken, to deploy job_1' })).toMatchObject({
      code: 'agent_capacity',
      message: 'The agent has it, but: all 4 slots are taken, to deploy job_1.',
    })
    expect(whyJobWaits({ ...job, status: 'running' })).toBeUndefined()
    expect(whyJobWaits({ ...job, status: 'running', cancelRequestedAt: job.createdAt })?.code).toBe(
      'canceling',
    )
  })
})

describe('whyJobWaits of a held job', () => {
  const at = '2026-11-15T10:00:00.000Z'
  const agent = { id: 'agt_1', lastSeenAt: null, slots: 1, interactiveSlots: 0, features: null, holding: [] }
  const held = (cancelRequestedAt: string | null, connected: boolean) =>
    whyJobWaits({
      status: 'held',
      kind: 'deploy',
      hold: { reason: 'the customer paused it', until: null, since: at, startBefore: at },
      said: null,
      createdAt: at,
      assignedAt: at,
      leaseUntil: null,
      cancelRequestedAt,
      target: { role: 'install', installId: 'ins_1', install: 'acme' },
      requires: [],
      agents: [{ ...agent, connected }],
      formerAgents: 0,
      ahead: 0,
    })

  it('no longer says that it starts by itself once it was canceled, and says how it ends', () => {
    expect(held(null, true)).toMatchObject({
      code: 'held',
      remedy: expect.stringContaining('starts by itself') as string,
    })
    expect(held(at, true)).toMatchObject({ code: 'canceling', remedy: null })
    expect(held(at, false)).toMatchObject({
      code: 'canceling',
      message: expect.stringContaining('is not connected') as string,
      remedy: expect.stringContaining('tenon jobs settle') as string,
    })
  })
})

describe('whyJobWaits, where connected agents cannot do the job', () => {
  const at = '2026-11-15T10:00:00.000Z'
  const agent = { id: 'agt_1', connected: true, lastSeenAt: null, slots: 1, interactiveSlots: 0, holding: [] }
  const why = (since: string, ...features: (string[] | null)[]) =>
    whyJobWaits({
      status: 'queued',
      kind: 'deploy',
      hold: null,
      said: null,
      createdAt: at,
      assignedAt: null,
      leaseUntil: null,
      cancelRequestedAt: null,
      target: { role: 'install', installId: 'ins_1', install: 'acme' },
      formerAgents: 0,
      ahead: 0,
      requires: [{ feature: 'network', since }],
      agents: features.map((has) => ({ ...agent, features: has })),
    })

  it('says which version can, and that the agent is to be updated', () => {
    expect(why('0.3', [], ['hold'])).toMatchObject({
      code: 'agent_too_old',
      message: 'No connected agent can do it: it needs agent ≥ 0.3, which has network.',
      remedy: 'Update the agent of install acme.',
    })
    expect(why('', [])?.message).toContain('it needs a newer agent, which has network')
  })

  it('counts the slots of those that can, and one that has not said what it can do as one of them', () => {
    expect(why('0.3', [], ['network'])?.code).toBe('dispatching')
    expect(why('0.3', null)?.code).toBe('dispatching')
  })
})

describe('whyRunWaits', () => {
  const since = '2026-11-15T10:00:00.000Z'

  it('names the run ahead, the agent that has not come, and what each active job waits for', () => {
    const queued = { id: 'run_9', status: 'queued' as const, createdAt: since, activeSteps: [], retries: [] }
    expect(whyRunWaits({ ...queued, blockedBy: null })).toMatchObject([{ code: 'starting' }])
    const [behind] = whyRunWaits({ ...queued, blockedBy: { runId: 'run_1', kind: 'provision' } })
    expect(behind).toMatchObject({ code: 'run_ahead', remedy: expect.stringContaining('run_1') as unknown })
    const job = { code: 'lost', message: 'Unknown.', since, remedy: null }
    const waits = whyRunWaits({
      id: 'run_9',
      status: 'active',
      createdAt: since,
      blockedBy: null,
      activeSteps: [
        { key: 'agent', kind: 'agent', component: null, since, job: undefined },
        { key: 'deploy:web', kind: 'deploy', component: 'web', since, job },
        { key: 'deploy:db', kind: 'deploy', component: 'db', since, job: undefined },
        { key: 'approval:db', kind: 'approval', component: 'db', since, job: undefined },
      ],
      retries: [{ key: 'sync:db', attempts: 2, notBefore: since, since, message: 'exit code 1' }],
    })
    expect(waits.map((w) => [w.code, w.message])).toEqual([
      ['agent_enrolling', 'The install agent has not connected yet.'],
      ['lost', 'deploy:web: Unknown.'],
      ['approval', 'approval:db: somebody must approve it.'],
      ['retrying', `sync:db failed 2 times (exit code 1) and is tried again at ${since}.`],
    ])
    expect(waits.map((w) => w.remedy).slice(2)).toEqual([
      'Look at it and decide: `tenon runs approve run_9 db` or `tenon runs reject run_9 db --reason …`.',
      'Nothing, or stop it: `tenon runs cancel run_9`.',
    ])
    expect(whyRunWaits({ ...queued, status: 'failed', blockedBy: null })).toEqual([])
  })
})
