import type { AuditHead, SignedDocument } from '@tenon/core'
import type { JobReport, JobResult, StateLock } from '@tenon/protocol'
import type { JournalEntry } from './journal-entry.ts'

/** Outputs as they go into the report: a sensitive one has no value here. */
export type ReportedOutputs = JobReport['outputs']

interface OfJob {
  jobId: string
  fence: number
}

export interface JobRecord extends OfJob {
  document: SignedDocument
  expiresAt: string
  startedAt: string | null
  tokenHash: string | null
  held: { since: string; verdict: SignedDocument } | null
  startBefore: string | null
  given: Set<string>
  cancelRequested: boolean
  stoppedByCustomer: boolean
  result: JobResult | null
  outputs: ReportedOutputs
  /** By component. */
  stateLocks: Map<string, StateLock>
  /** Digests of the plans that the job saved. */
  plans: Set<string>
  logAcked: number
  logEnded: boolean
  /** The signed report. */
  finished: SignedDocument | null
}

export interface JournalState {
  jobs: Map<string, JobRecord>
  /** Every job ever accepted here, with its highest fencing number, until its manifest has expired. */
  seen: Map<string, { fence: number; expiresAt: string }>
  head: AuditHead | null
  events: Map<number, SignedDocument>
  nextEvent: number
  /** Log bytes that were not shipped, ever. */
  dropped: number
  paused: string | null
}

export function emptyState(): JournalState {
  return {
    jobs: new Map(),
    seen: new Map(),
    head: null,
    events: new Map(),
    nextEvent: 1,
    dropped: 0,
    paused: null,
  }
}

export function applyEntry(state: JournalState, entry: JournalEntry): void {
  switch (entry.type) {
    case 'accepted':
      return accept(state, entry)
    case 'seen':
      return see(state, entry)
    case 'closed':
      if (state.jobs.get(entry.jobId)?.fence === entry.fence) state.jobs.delete(entry.jobId)
      return
    case 'head':
      state.head = entry.head
      return
    case 'event':
      state.events.set(entry.seq, entry.signed)
      state.nextEvent = Math.max(state.nextEvent, entry.seq + 1)
      return
    case 'event.acked':
      state.events.delete(entry.seq)
      return
    case 'event.next':
      state.nextEvent = Math.max(state.nextEvent, entry.seq)
      return
    case 'dropped':
      state.dropped = entry.total
      return
    case 'paused':
      state.paused = entry.since
      return
    default:
      return applyToJob(state, entry)
  }
}

type JobEntry = Extract<
  JournalEntry,
  {
    type:
      | 'starting'
      | 'held'
      | 'permit'
      | 'given'
      | 'cancel'
      | 'result'
      | 'outputs'
      | 'state.lock'
      | 'plan'
      | 'log'
      | 'finished'
  }
>

function applyToJob(state: JournalState, entry: JobEntry): void {
  const job = state.jobs.get(entry.jobId)
  if (!job || job.fence !== entry.fence) return
  switch (entry.type) {
    case 'starting':
      job.startedAt = entry.at
      job.tokenHash = entry.tokenHash
      if (entry.given !== undefined) job.given.add(entry.given)
      return
    case 'held':
      job.held = { since: entry.since, verdict: entry.verdict }
      return
    case 'permit':
      job.startBefore = entry.startBefore
      return
    case 'given':
      job.given.add(entry.sealed)
      return
    case 'cancel':
      job.cancelRequested = true
      if (entry.by === 'customer') job.stoppedByCustomer = true
      return
    case 'result':
      job.result = entry.result
      return
    case 'outputs':
      job.outputs = entry.outputs
      return
    case 'state.lock':
      if (entry.lock) job.stateLocks.set(entry.component, entry.lock)
      else job.stateLocks.delete(entry.component)
      return
    case 'plan':
      job.plans.add(entry.digest)
      return
    case 'log':
      job.logAcked = entry.acked
      job.logEnded = entry.ended
      return
    case 'finished':
      job.finished = entry.signed
      return
  }
}

function accept(state: JournalState, entry: Extract<JournalEntry, { type: 'accepted' }>): void {
  const known = state.seen.get(entry.jobId)
  if (known && known.fence >= entry.fence) return
  see(state, entry)
  state.jobs.set(entry.jobId, {
    jobId: entry.jobId,
    fence: entry.fence,
    document: entry.document,
    expiresAt: entry.expiresAt,
    startedAt: null,
    tokenHash: null,
    held: null,
    startBefore: null,
    given: new Set(),
    cancelRequested: false,
    stoppedByCustomer: false,
    result: null,
    outputs: {},
    stateLocks: new Map(),
    plans: new Set(),
    logAcked: 0,
    logEnded: false,
    finished: null,
  })
}

function see(state: JournalState, entry: { jobId: string; fence: number; expiresAt: string }): void {
  const known = state.seen.get(entry.jobId)
  if (known && known.fence >= entry.fence) return
  state.seen.set(entry.jobId, { fence: entry.fence, expiresAt: entry.expiresAt })
}

/** A number whose manifest expired before `expiredBeforeMs` protects nothing any more: the manifest is refused anyway. */
export function forgetExpired(state: JournalState, expiredBeforeMs: number): void {
  for (const [jobId, { expiresAt }] of state.seen) {
    if (!state.jobs.has(jobId) && Date.parse(expiresAt) < expiredBeforeMs) state.seen.delete(jobId)
  }
}

/** The fewest entries that rebuild the state. */
export function snapshotEntries(state: JournalState): JournalEntry[] {
  const entries: JournalEntry[] = []
  for (const job of state.jobs.values()) entries.push(...jobEntries(job))
  for (const [jobId, { fence, expiresAt }] of state.seen) {
    if (state.jobs.get(jobId)?.fence === fence) continue
    entries.push({ type: 'seen', jobId, fence, expiresAt })
  }
  if (state.head) entries.push({ type: 'head', head: state.head })
  for (const [seq, signed] of state.events) entries.push({ type: 'event', seq, signed })
  entries.push({ type: 'event.next', seq: state.nextEvent }, { type: 'dropped', total: state.dropped })
  if (state.paused !== null) entries.push({ type: 'paused', since: state.paused })
  return entries
}

function jobEntries(job: JobRecord): JournalEntry[] {
  const { jobId, fence, document, expiresAt, startedAt, tokenHash } = job
  const of = { jobId, fence }
  const entries: JournalEntry[] = [{ type: 'accepted', ...of, document, expiresAt }]
  if (startedAt !== null) entries.push({ type: 'starting', ...of, at: startedAt, tokenHash: tokenHash ?? '' })
  if (job.held) entries.push({ type: 'held', ...of, ...job.held })
  if (job.startBefore !== null) entries.push({ type: 'permit', ...of, startBefore: job.startBefore })
  for (const sealed of job.given) entries.push({ type: 'given', ...of, sealed })
  if (job.cancelRequested) {
    entries.push({ type: 'cancel', ...of, ...(job.stoppedByCustomer ? { by: 'customer' as const } : {}) })
  }
  if (job.result) entries.push({ type: 'result', ...of, result: job.result })
  if (Object.keys(job.outputs).length > 0) entries.push({ type: 'outputs', ...of, outputs: job.outputs })
  for (const [component, lock] of job.stateLocks) entries.push({ type: 'state.lock', ...of, component, lock })
  for (const digest of job.plans) entries.push({ type: 'plan', ...of, digest })
  entries.push({ type: 'log', ...of, acked: job.logAcked, ended: job.logEnded })
  if (job.finished) entries.push({ type: 'finished', ...of, signed: job.finished })
  return entries
}
