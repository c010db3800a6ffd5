import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JournalEntry } from './journal-entry.ts'
import { applyEntry, emptyState, forgetExpired, snapshotEntries, type JournalState } from './journal-state.ts'

const FAR = '2100-01-01T00:00:00.000Z'
const document = { text: '{}', keyId: 'key', signature: 'AA==' }

const job = fc.record({ jobId: fc.constantFrom('a', 'b', 'c'), fence: fc.integer({ min: 1, max: 3 }) })
const entry: fc.Arbitrary<JournalEntry> = fc.oneof(
  job.map((of): JournalEntry => ({ type: 'accepted', ...of, document, expiresAt: FAR })),
  job.map((of): JournalEntry => ({ type: 'starting', ...of, at: FAR, tokenHash: 'h' })),
  job.map((of): JournalEntry => ({ type: 'held', ...of, since: FAR, verdict: document })),
  job.map((of): JournalEntry => ({ type: 'permit', ...of, startBefore: FAR })),
  job.map((of): JournalEntry => ({ type: 'cancel', ...of })),
  job.map((of): JournalEntry => ({ type: 'cancel', ...of, by: 'customer' })),
  fc.constantFrom(FAR, null).map((since): JournalEntry => ({ type: 'paused', since })),
  job.map((of): JournalEntry => ({ type: 'closed', ...of })),
  job.map((of): JournalEntry => ({ type: 'result', ...of, result: { ok: true, message: '', data: {} } })),
  fc.tuple(job, fc.nat(99)).map(([of, acked]): JournalEntry => ({ type: 'log', ...of, acked, ended: false })),
  fc.nat(99).map((total): JournalEntry => ({ type: 'dropped', total })),
  fc.integer({ min: 1, max: 9 }).map((seq): JournalEntry => ({
    type: 'event',
    seq,
    signed: document,
  })),
  fc.integer({ min: 1, max: 9 }).map((seq): JournalEntry => ({ type: 'event.acked', seq })),
)

function replay(entries: readonly JournalEntry[]): JournalState {
  const state = emptyState()
  for (const each of entries) applyEntry(state, each)
  return state
}

describe('the state of the journal', () => {
  it('is the same after it was rewritten as a snapshot', () => {
    fc.assert(
      fc.property(fc.array(entry), (entries) => {
        const state = replay(entries)
        const again = replay(snapshotEntries(state))
        expect(again.jobs).toEqual(state.jobs)
        expect(new Map([...again.seen].toSorted())).toEqual(new Map([...state.seen].toSorted()))
        expect(again.events).toEqual(state.events)
        expect(again.nextEvent).toBe(state.nextEvent)
        expect(again.dropped).toBe(state.dropped)
        expect(again.paused).toBe(state.paused)
      }),
    )
  })

  it('never takes back a job under a fencing number that it has seen', () => {
    fc.assert(
      fc.property(fc.array(entry), job, (entries, of) => {
        const accepted: JournalEntry = { type: 'accepted', ...of, document, expiresAt: FAR }
        const state = replay([...entries, accepted, { type: 'closed', ...of }])
        applyEntry(state, accepted)
        expect(state.jobs.get(of.jobId)?.fence).not.toBe(of.fence)
      }),
    )
  })

  it('forgets a seen number only after its manifest has expired', () => {
    const state = replay([
      { type: 'seen', jobId: 'old', fence: 1, expiresAt: '2020-01-01T00:00:00.000Z' },
      { type: 'seen', jobId: 'new', fence: 1, expiresAt: FAR },
    ])
    forgetExpired(state, Date.parse('2026-01-01T00:00:00.000Z'))
    expect([...state.seen.keys()]).toEqual(['new'])
  })
})
