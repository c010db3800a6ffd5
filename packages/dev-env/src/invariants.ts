import {
  agentWordOf,
  emptyHead,
  verifyEntries,
  verifyHead,
  verifySignedHead,
  type AuditEntry,
} from '@tenon/core'
import { createHash, createPublicKey, verify as verifySignature } from 'node:crypto'
import { auditOf } from './expectations.ts'
import type { Job, Stage } from './stage.ts'
import { jobsLeft, startsOf } from './starts.ts'
import { until } from './until.ts'

const ENDED = ['succeeded', 'failed', 'canceled', 'lapsed']

/** What holds after every scenario, whatever happened in it. */
export async function checkInvariants(stage: Stage, { staysLost }: { staysLost: string[] }): Promise<void> {
  checkStarts(stage)
  const jobs = await allJobs(stage)
  await checkEnds(stage, jobs, staysLost)
  await checkChains(stage)
  const entries = await auditOf(stage)
  checkAuditOfEnds(jobs, entries)
  await checkReports(stage, jobs, entries)
  await checkNothingLeft(stage)
}

/** A job is started at most once, ever: nothing that may have run is started again. */
function checkStarts(stage: Stage): void {
  const seen = new Set<string>()
  for (const { jobId } of startsOf(stage.dir)) {
    if (seen.has(jobId)) throw new Error(`job ${jobId} was started twice`)
    seen.add(jobId)
  }
}

async function allJobs(stage: Stage): Promise<Job[]> {
  const jobs: Job[] = []
  let after: string | undefined
  do {
    const page = await stage.client.call('jobs.list', { query: { limit: 100, ...(after ? { after } : {}) } })
    jobs.push(...page.items)
    after = page.next ?? undefined
  } while (after)
  return jobs
}

async function checkEnds(stage: Stage, jobs: Job[], staysLost: string[]): Promise<void> {
  const allowed = await Promise.all(staysLost.map((step) => stage.jobId(step)))
  const open = jobs.find((job) => !ENDED.includes(job.status) && !allowed.includes(job.id))
  if (open) throw new Error(`the ${open.kind} job ${open.id} is left ${open.status}`)
}

async function checkChains(stage: Stage): Promise<void> {
  const { keys } = await stage.client.call('server.info', {})
  const known = new Map(keys.map((key) => [key.keyId, key.publicKey]))
  const { chains } = await stage.client.call('audit.chains', {})
  for (const { chain } of chains) {
    let head = emptyHead(chain)
    const hashes = new Map<number, string>()
    for (;;) {
      const query = { afterSeq: head.seq, limit: 1000 }
      const page = await stage.client.call('audit.entries', { params: { chain }, query })
      const result = verifyEntries(head, page.entries, sha256)
      head = result.head
      for (const entry of page.entries) hashes.set(entry.seq, entry.hash)
      const isLast = page.head.seq <= head.seq || page.entries.length === 0
      const problem =
        result.problems[0] ??
        verifySignedHead(page.head, known, verify) ??
        (isLast ? verifyHead(head, page.head, (seq) => hashes.get(seq)) : undefined)
      if (problem) throw new Error(`the chain ${chain} does not verify: ${problem.message}`)
      if (isLast) break
    }
  }
}

function checkAuditOfEnds(jobs: Job[], entries: AuditEntry[]): void {
  for (const job of jobs.filter(({ status }) => ENDED.includes(status))) {
    const ends = entries.filter(
      ({ action, subject }) => subject.id === job.id && ENDED.some((status) => action === `job.${status}`),
    )
    if (ends.length !== 1 || ends[0]!.action !== `job.${job.status}`)
      throw new Error(
        `the job ${job.id} ${job.status}, but the audit says: ${ends.map((e) => e.action).join(', ') || 'nothing'}`,
      )
  }
}

/** What an agent did is signed by it, and what it said of the log's length is what is stored. */
async function checkReports(stage: Stage, jobs: Job[], entries: AuditEntry[]): Promise<void> {
  const { agents } = await stage.client.call('audit.chains', {})
  for (const entry of entries) {
    const { details, subject } = entry
    const word = 'report' in details ? agentWordOf(entry) : undefined
    if (!word) continue
    const key = agents.find(({ agentId }) => agentId === word.agentId)?.publicKey
    if (!key || !verify(key, word.bytes, word.signature))
      throw new Error(`the report on ${subject.id} is not signed by its agent`)
    const report = JSON.parse((details['report'] as { text: string }).text) as { logBytes: number }
    const job = jobs.find(({ id }) => id === subject.id)!
    if (job.logBytes !== report.logBytes)
      throw new Error(`of the log of ${job.id} ${job.logBytes} of ${report.logBytes} bytes are stored`)
  }
}

/** An agent that is connected lets go of every job that is settled. */
async function checkNothingLeft(stage: Stage): Promise<void> {
  for (const [name, program] of stage.agents) {
    const code = await Promise.race([program.exited, Promise.resolve('running')])
    if (code !== 'running') continue
    await until(`the agent ${name} to remove its jobs`, () => jobsLeft(stage.dir, name).length === 0)
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function verify(publicKey: string, bytes: Uint8Array, signature: string): boolean {
  const key = createPublicKey({ key: Buffer.from(publicKey, 'base64'), format: 'der', type: 'spki' })
  return verifySignature(null, bytes, key, Buffer.from(signature, 'base64'))
}
