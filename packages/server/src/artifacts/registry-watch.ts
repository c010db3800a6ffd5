import type { AuditFact, OwnFact } from '@tenon/core'
import type { RegistryEvent } from '@tenon/oci'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { anyOf } from '../store/statements.ts'
import { transact } from '../store/transaction.ts'
import { auditLoginRefusal, isLoginLive, isLoginSubject } from './registry-logins.ts'
import { TOKEN_REFUSED } from './registry-tokens.ts'

type Refused = Extract<RegistryEvent, { type: 'access.refused' }>

/** An answer of the database holds this long, so that a busy job costs it a question now and then. */
const LEASE_KNOWN_MS = 2000
/** The same refusal of the same job is written once in this time: a job in a loop must not fill the audit. */
const SAID_AGAIN_MS = 60_000
const KEEP = 5000

export interface RegistryWatch {
  /** `subject` is a job and its fencing number, or somebody's login: may it still use what it was given? */
  isLive(subject: string): Promise<boolean>
  /** Writes down what a token of ours was refused; noise of strangers is not audited. */
  refused(event: Refused): Promise<void>
}

/** What the vendor registry asks and tells about those who hold its tokens: jobs, and people by their logins. */
export function createRegistryWatch(context: Context): RegistryWatch {
  const leases = new Map<string, { at: number; holds: Promise<boolean> }>()
  const said = new Map<string, number>()
  return {
    isLive(subject) {
      const known = leases.get(subject)
      if (known && context.now() - known.at < LEASE_KNOWN_MS) return known.holds
      const holds = isLoginSubject(subject) ? isLoginLive(context, subject) : holdsLease(context, subject)
      remember(leases, subject, { at: context.now(), holds })
      holds.catch(() => leases.delete(subject))
      return holds
    },
    async refused(event) {
      const { subject = '', reason, action, repository, digest } = event
      const isLogin = isLoginSubject(subject)
      const job = isLogin ? undefined : readSubject(subject)
      if (!isLogin && !job) return
      // Whoever holds a bearer that is over is a stranger, and chooses what he asks for.
      if (job && (reason === 'expired' || reason === 'ended'))
        return auditRefusal(context, job, event, `bearer_${reason}`)
      // What a job asks for is its manifest's; a person may ask for anything.
      const key = [subject, reason, action, ...(isLogin ? [] : [repository, digest])].join(' ')
      if (context.now() - (said.get(key) ?? 0) < SAID_AGAIN_MS) return
      remember(said, key, context.now())
      if (job) return auditRefusal(context, job, event)
      await auditLoginRefusal(context, subject, detailsOf(event))
    },
  }
}

async function holdsLease({ db }: Pick<Context, 'db'>, subject: string): Promise<boolean> {
  const job = readSubject(subject)
  if (!job) return false
  const held = await db
    .selectFrom('job')
    .innerJoin('agent', 'agent.id', 'job.agent_id')
    .select('job.id')
    .where('job.id', '=', job.jobId)
    .where('job.fence', '=', job.fence)
    .where('job.status', '=', anyOf(['assigned', 'running']))
    .where('agent.status', '=', 'enrolled')
    .executeTakeFirst()
  return held !== undefined
}

/** With `sampledAs` of that kind one is written a minute, and the others are counted. */
async function auditRefusal(
  context: Context,
  { jobId, fence }: { jobId: string; fence: number },
  event: Refused,
  sampledAs?: string,
): Promise<void> {
  const job = await context.db
    .selectFrom('job')
    .select(['install_id', 'manifest_digest'])
    .where('id', '=', jobId)
    .executeTakeFirst()
  const chain = chainOf(job?.install_id ?? null)
  if (sampledAs && !context.refusals.admit(event, chain, TOKEN_REFUSED, sampledAs, context.now())) return
  const fact: OwnFact<'job'> = {
    actor: { type: 'server', id: context.serverId },
    action: TOKEN_REFUSED,
    subject: { type: 'job', id: jobId },
    outcome: 'refused',
    manifestDigest: job?.manifest_digest ?? null,
    details: { fence, ...detailsOf(event) },
  }
  await transact(context, async (tx) => tx.audit(chain, fact))
}

const detailsOf = (event: Refused): AuditFact['details'] => ({
  reason: event.reason ?? 'not_granted',
  action: event.action,
  repository: event.repository ?? null,
  digest: event.digest ?? event.reference ?? null,
})

function readSubject(subject: string): { jobId: string; fence: number } | undefined {
  const [, jobId, fence] = /^(job_[0-9a-z]+)#(\d{1,15})$/i.exec(subject) ?? []
  return jobId === undefined ? undefined : { jobId, fence: Number(fence) }
}

function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key)
  map.set(key, value)
  if (map.size > KEEP) map.delete(map.keys().next().value ?? '')
}
