import { jobStates, type JobStatus } from './states.ts'

/** What an agent's journal and runtime hold of a job at the start of a session. */
export interface HeldJob {
  jobId: string
  fence: number
  state: 'accepted' | 'held' | 'running' | 'finished'
}

/** What the server knows of a job that it gave to this agent, or that the agent named. */
export interface KnownJob {
  jobId: string
  fence: number
  status: JobStatus
  cancelRequested: boolean
  /** The agent that holds it, or null. */
  agentId: string | null
  /** Of one that lapsed: nothing that asks anew for it was given to anybody yet. */
  isReplaceable?: boolean
}

export type Verdict = 'keep' | 'stop' | 'forget'

export interface Reconciliation {
  verdicts: { jobId: string; fence: number; verdict: Verdict }[]
  /** Assigned, but the agent never journaled it: nothing ran, so it goes back to the queue under a new fencing number. */
  requeue: string[]
  /** Was `lost`, and its agent is back with it. */
  recover: string[]
  /** Was `held`, and its agent has begun it. */
  begun: string[]
  /** Was `held`, and its agent is back without it. */
  lapsed: string[]
  /** Had lapsed, but its agent had started it before, and nobody has what replaced it: it goes on. */
  revived: string[]
  /** Was `running` or `lost`, and its agent is back without it: it ends as failed, with the reason `gone`. */
  gone: string[]
}

/** Pure: one answer for everything that either side holds, so that no job is forgotten and none has two holders. */
export function reconcile(
  agentId: string,
  held: readonly HeldJob[],
  known: readonly KnownJob[],
): Reconciliation {
  const byId = new Map(known.map((job) => [job.jobId, job]))
  const heldLeases = new Set(held.map(leaseOf))
  const result: Reconciliation = {
    verdicts: [],
    requeue: [],
    recover: [],
    begun: [],
    lapsed: [],
    revived: [],
    gone: [],
  }
  for (const job of held) {
    const mine = byId.get(job.jobId)
    const verdict = verdictOn(agentId, job, mine)
    result.verdicts.push({ jobId: job.jobId, fence: job.fence, verdict })
    if (verdict !== 'forget' && mine?.status === 'lost' && job.state !== 'held')
      result.recover.push(job.jobId)
    if (verdict !== 'forget' && mine?.status === 'held' && hasBegun(job)) result.begun.push(job.jobId)
    if (verdict === 'keep' && mine?.status === 'lapsed' && mine.isReplaceable === true)
      result.revived.push(job.jobId)
  }
  for (const job of known) {
    if (job.agentId !== agentId || heldLeases.has(leaseOf(job))) continue
    if (job.status === 'assigned') result.requeue.push(job.jobId)
    if (job.status === 'held') result.lapsed.push(job.jobId)
    if (job.status === 'running' || job.status === 'lost') result.gone.push(job.jobId)
  }
  return result
}

/** A job held under an older fencing number is another life of it, not the one that the server waits for. */
function leaseOf(job: { jobId: string; fence: number }): string {
  return `${job.jobId}/${job.fence}`
}

function verdictOn(agentId: string, held: HeldJob, known: KnownJob | undefined): Verdict {
  if (!known || known.agentId !== agentId || known.fence !== held.fence) return 'forget'
  if (known.status === 'lapsed') return verdictOnLapsed(held, known)
  if (known.status === 'queued' || jobStates.isEnd(known.status)) return 'forget'
  return known.cancelRequested && held.state !== 'finished' ? 'stop' : 'keep'
}

/** Its agent was away and started it in time: what asks anew has to give way, or it has to stop. Its report is always taken. */
function verdictOnLapsed(held: HeldJob, known: KnownJob): Verdict {
  if (!hasBegun(held)) return 'forget'
  return known.isReplaceable === true || held.state === 'finished' ? 'keep' : 'stop'
}

function hasBegun({ state }: HeldJob): boolean {
  return state === 'running' || state === 'finished'
}
