import { describe, expect, it } from 'vitest'
import { reconcile, type HeldJob, type KnownJob } from './inventory.ts'
import { jobStates } from './states.ts'

const ME = 'agt_me'
const FENCES = [1, 2]

/** One job as the agent may hold it and as the server may know it: every combination. */
const heldOptions: (HeldJob | undefined)[] = [
  undefined,
  ...FENCES.flatMap((fence) =>
    (['accepted', 'held', 'running', 'finished'] as const).map((state) => ({ jobId: 'job_1', fence, state })),
  ),
]
const knownOptions: (KnownJob | undefined)[] = [
  undefined,
  ...jobStates.states.flatMap((status) =>
    FENCES.flatMap((fence) =>
      [ME, 'agt_other', null].flatMap((agentId) =>
        [false, true].map((cancelRequested) => ({ jobId: 'job_1', fence, status, agentId, cancelRequested })),
      ),
    ),
  ),
]
const all = heldOptions.flatMap((held) =>
  knownOptions.map((known) => {
    const result = reconcile(ME, held ? [held] : [], known ? [known] : [])
    const mine = known?.agentId === ME && !jobStates.isEnd(known.status) && known.status !== 'queued'
    return { held, known, result, mine, same: mine && held?.fence === known.fence }
  }),
)

describe('reconcile, over every combination of what both sides hold', () => {
  it('gives one verdict for each job that the agent holds', () => {
    for (const { held, result } of all) {
      expect(result.verdicts.map((v) => [v.jobId, v.fence])).toEqual(held ? [[held.jobId, held.fence]] : [])
    }
  })

  it('lets the agent keep a job only when it is open, its own, and under the same fencing number', () => {
    for (const { held, known, result, same } of all) {
      const stop = known?.cancelRequested && held?.state !== 'finished'
      if (known?.status === 'lapsed') continue
      expect(result.verdicts[0]?.verdict).toBe(!held ? undefined : !same ? 'forget' : stop ? 'stop' : 'keep')
    }
  })

  it('takes what finished even when a cancel was asked for, so that no result is lost', () => {
    const finished = all.filter((c) => c.same && c.held?.state === 'finished')
    expect(finished.length).toBeGreaterThan(0)
    for (const { result } of finished) expect(result.verdicts[0]?.verdict).toBe('keep')
  })

  it('queues a job again only when it was assigned and never journaled', () => {
    for (const { known, result, mine, same } of all) {
      expect(result.requeue).toEqual(mine && !same && known?.status === 'assigned' ? ['job_1'] : [])
    }
  })

  it('recovers a lost job with its agent, and ends one that its agent came back without', () => {
    for (const { held, known, result, mine, same } of all) {
      expect(result.recover).toEqual(
        same && known?.status === 'lost' && held?.state !== 'held' ? ['job_1'] : [],
      )
      const open = known?.status === 'running' || known?.status === 'lost'
      expect(result.gone).toEqual(mine && !same && open ? ['job_1'] : [])
    }
  })

  it('forgets no job: each that this agent should have is kept, stopped, queued again or ended', () => {
    for (const { result, mine, same } of all.filter((c) => c.mine)) {
      const answers = [same, ...[result.requeue, result.lapsed, result.gone].map(({ length }) => length > 0)]
      expect(mine && answers.filter(Boolean)).toHaveLength(1)
    }
  })

  it('lets a held job lapse only when its agent is back without it', () => {
    for (const { known, result, mine, same } of all)
      expect(result.lapsed).toEqual(mine && !same && known?.status === 'held' ? ['job_1'] : [])
  })

  it('takes a held job that its agent has begun for begun', () => {
    for (const { held, known, result, same } of all) {
      const hasBegun = held?.state === 'running' || held?.state === 'finished'
      expect(result.begun).toEqual(same && known?.status === 'held' && hasBegun ? ['job_1'] : [])
    }
  })

  it('lets a job that lapsed go on when its agent had started it, unless what asks anew was given away', () => {
    const lapsed = {
      jobId: 'job_1',
      fence: 1,
      status: 'lapsed' as const,
      agentId: ME,
      cancelRequested: false,
    }
    const verdict = (state: HeldJob['state'], isReplaceable: boolean) => {
      const result = reconcile(ME, [{ jobId: 'job_1', fence: 1, state }], [{ ...lapsed, isReplaceable }])
      return [result.verdicts[0]?.verdict, result.revived.length]
    }
    expect(verdict('running', true)).toEqual(['keep', 1])
    expect(verdict('finished', true)).toEqual(['keep', 1])
    expect(verdict('running', false)).toEqual(['stop', 0])
    expect(verdict('finished', false)).toEqual(['keep', 0])
    expect(verdict('held', true)).toEqual(['forget', 0])
  })

  it('answers for many jobs as for each alone', () => {
    const some = all.filter((_, i) => i % 7 === 0)
    const held = some.flatMap((c, i) => (c.held ? [{ ...c.held, jobId: `job_${i}` }] : []))
    const known = some.flatMap((c, i) => (c.known ? [{ ...c.known, jobId: `job_${i}` }] : []))
    const result = reconcile(ME, held, known)
    const ids = (list: 'requeue' | 'recover' | 'gone') =>
      some.flatMap((c, i) => c.result[list].map(() => `job_${i}`))
    expect(result.requeue).toEqual(ids('requeue'))
    expect(result.recover).toEqual(ids('recover'))
    expect(result.gone).toEqual(ids('gone'))
    expect(result.verdicts.map((v) => v.verdict)).toEqual(
      some.flatMap((c) => c.result.verdicts.map((v) => v.verdict)),
    )
  })
})
