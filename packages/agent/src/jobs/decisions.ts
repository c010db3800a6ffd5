import {
  checkManifest,
  type HeldJob,
  type JobEndReason,
  type JobOutcome,
  type JobManifest,
  type Json,
  type ManifestTarget,
  type RefusalCode,
  type SignedDocument,
} from '@tenon/core'
import { jobManifest, type JobResult } from '@tenon/protocol'
import { z } from 'zod'
import { sha256, verify } from '../ground/crypto.ts'
import type { JobRecord, JournalState } from '../journal/journal-state.ts'
import type { JobExit, JobHandle } from '../runtime/runtime.ts'

export interface AssignCheck {
  document: SignedDocument
  keys: ReadonlyMap<string, string>
  serverId: string
  target: ManifestTarget
  nowMs: number
  skewMs: number
  state: Pick<JournalState, 'jobs' | 'seen'>
  /** What this life of the agent refused, by job. */
  refused: ReadonlyMap<string, Refusal>
}

export interface Refusal {
  type: 'refuse'
  jobId: string | undefined
  fence: number
  code: RefusalCode
  message: string
}

export type AssignVerdict =
  | { type: 'accept'; manifest: JobManifest; supersedes: JobRecord | undefined }
  /** The very job that is held already: the server did not hear the first answer. */
  | { type: 'again'; jobId: string; fence: number }
  | Refusal

/** Pure: whether this agent runs what it was given. */
export function decideAssign(check: AssignCheck): AssignVerdict {
  const { document, keys, serverId, target, nowMs, skewMs } = check
  const common = { keys, serverId, target, nowMs, skewMs, verify, sha256 }
  const verdict = checkManifest({ document, context: 'job-manifest/1', ...common }, parseManifest)
  if (!verdict.ok) return unread(check, verdict)
  const { jobId, fence } = verdict.manifest
  const held = check.state.jobs.get(jobId)
  if (held?.fence === fence && held.document.text === document.text) return { type: 'again', jobId, fence }
  const seen = check.state.seen.get(jobId)
  if (seen && seen.fence >= fence) {
    const message = `job ${jobId} was accepted here before with fencing number ${seen.fence}`
    return { type: 'refuse', jobId, fence, code: 'seen_before', message }
  }
  // The server may have ended the job on that word while this copy was on its way.
  const refused = check.refused.get(jobId)
  if (refused?.fence === fence) return refused
  return { type: 'accept', manifest: verdict.manifest, supersedes: held }
}

/**
 * A job that is held and has not begun is not refused by a bad copy of its manifest: the server would take it for ended.
 * Once it runs, the server knows that, and keeps the refusal for the audit alone.
 */
function unread({ document, state }: AssignCheck, refusal: Pick<Refusal, 'code' | 'message'>): AssignVerdict {
  const { jobId, fence } = namedJob(document.text)
  const held = jobId === undefined ? undefined : state.jobs.get(jobId)
  if (jobId !== undefined && held?.fence === fence && held.startedAt === null)
    return { type: 'again', jobId, fence }
  return { type: 'refuse', jobId, fence, code: refusal.code, message: refusal.message }
}

function parseManifest(value: unknown): JobManifest | undefined {
  const parsed = jobManifest.safeParse(value)
  return parsed.success ? parsed.data : undefined
}

/** Which job a refused document claims to be, so that the refusal can name it. Nothing else of it is believed. */
function namedJob(text: string): { jobId: string | undefined; fence: number } {
  const claim = z.object({ jobId: jobManifest.shape.jobId, fence: jobManifest.shape.fence })
  try {
    return claim.parse(JSON.parse(text))
  } catch {
    return { jobId: undefined, fence: 0 }
  }
}

export interface JobEnd {
  outcome: JobOutcome
  reason: JobEndReason
  exitCode: number | null
  message: string
}

/** Pure: what a job came to, out of how its program ended and what it said itself. */
export function decideOutcome(exit: JobExit, result: JobResult | null): JobEnd {
  const { reason, exitCode } = exit
  const kills = killedWords(exit)
  const said = result === null || result.message === '' || isOfStop(result) ? undefined : result.message
  if (reason === 'canceled') return { outcome: 'canceled', reason, exitCode, message: exit.message }
  // What ended it comes first: the program itself knows of no limit.
  if (reason === 'timeout' || reason === 'oom')
    return {
      outcome: 'failed',
      reason,
      exitCode,
      message: joined(exit.message, result?.ok ? undefined : said),
    }
  if (reason !== 'completed') {
    const words = result?.ok === false && result.message !== '' ? result.message : exit.message
    return { outcome: 'failed', reason, exitCode, message: joined(words, kills) }
  }
  const message = joined(result !== null && result.message !== '' ? result.message : exit.message, kills)
  if (result?.ok === false) return { outcome: 'failed', reason: 'exit', exitCode, message }
  return { outcome: 'succeeded', reason, exitCode, message }
}

/** The last words of a program that was told to stop, which say less than why it was. */
function isOfStop({ data }: JobResult): boolean {
  return data['code'] === 'canceled'
}

function killedWords({ memoryKills }: JobExit): string | undefined {
  if (!memoryKills) return undefined
  const what = memoryKills === 1 ? 'A process of it was' : `${memoryKills} processes of it were`
  return `${what} killed at the memory limit of the job.`
}

function joined(words: string, more: string | undefined): string {
  return more === undefined ? words : `${/[.!?]$/.test(words) ? words : `${words}.`} ${more}`
}

/** Pure: a job that the customer ended says so, whatever words the runtime has for it. */
export function namingTheCustomer(end: JobEnd, stoppedByCustomer: boolean): JobEnd {
  if (end.reason !== 'canceled' || !stoppedByCustomer) return end
  return { ...end, message: `The customer stopped the job on the agent's side. ${end.message}` }
}

export type Recovery =
  | { type: 'deliver' }
  | { type: 'reattach' }
  | { type: 'gone' }
  /** Accepted, but the runtime was never asked: it can safely start now. */
  | { type: 'start' }

/** Pure: how a new life of the agent goes on with a job of the one before. */
export function decideRecovery(record: JobRecord, found: JobHandle | undefined): Recovery {
  if (record.finished) return { type: 'deliver' }
  if (record.startedAt === null) return { type: 'start' }
  return found?.fence === record.fence ? { type: 'reattach' } : { type: 'gone' }
}

/** What the runtime holds that no journal entry knows, or knows under another fencing number. */
export function orphans(jobs: ReadonlyMap<string, JobRecord>, found: readonly JobHandle[]): JobHandle[] {
  return found.filter((handle) => {
    const record = jobs.get(handle.jobId)
    return record?.fence !== handle.fence || record.startedAt === null
  })
}

export function heldState(record: JobRecord): HeldJob['state'] {
  if (record.finished) return 'finished'
  if (record.startedAt !== null) return 'running'
  return record.held ? 'held' : 'accepted'
}

/** Every digest that a sync was about, and what became of it. */
export function syncedDetails(
  manifest: JobManifest,
  report: { outcome: string; message: string; result: { [key: string]: unknown } },
): { [key: string]: Json } {
  const told = report.result['artifacts']
  const known = new Map((Array.isArray(told) ? told : []).map((each: SyncedArtifact) => [each.digest, each]))
  const artifacts = manifest.operations.flatMap((operation) => operation.artifacts)
  return {
    fence: manifest.fence,
    outcome: report.outcome,
    message: report.outcome === 'succeeded' ? '' : report.message.slice(0, 300),
    artifacts: artifacts.map(({ repository, digest }) => {
      const {
        outcome = report.outcome === 'succeeded' ? 'synced' : 'failed',
        code = null,
        bytesCopied = 0,
      } = known.get(digest) ?? {}
      return { repository, digest, outcome, code, bytesCopied }
    }),
  }
}

interface SyncedArtifact {
  digest?: string
  outcome?: string
  code?: string | null
  bytesCopied?: number
}
