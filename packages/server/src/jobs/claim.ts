import {
  entryParts,
  INTERACTIVE_KINDS,
  SERVER_CHAIN,
  type JobStatus,
  type Lane,
  type KnownJob,
} from '@tenon/core'
import { CompiledQuery, sql } from 'kysely'
import { isoNow, type Context } from '../context.ts'
import type { GivenJob } from '../ground/slots.ts'
import { APPEND_MADE_ENTRIES } from '../store/audit-append.ts'
import { SHARED_AGENTS, lockJobRows } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { signAgain } from './control.ts'
import { loadLapsed } from './revive.ts'
import { assignedFact } from './start.ts'

type ClaimedRow = {
  id: string
  /** Index of the claim that gets it. */
  claim: number
  fence: number
  manifest: string
  manifest_key_id: string
  manifest_signature: string
  /** `stale`: not claimed, its manifest must be signed again first. `more`: no job, but there are others behind. */
  what: 'claimed' | 'stale' | 'more'
}

export interface Claimed {
  jobs: GivenJob[]
  /** Others wait behind them. If none does, the next jobs need not go through the queue. */
  isMore: boolean
}

/** An agent with free slots. */
export interface Claim {
  agentId: string
  sessionId: string
  pool: string
  /** Which kinds of jobs: an agent with slots of their own for the interactive ones asks for both apart. */
  lane: Lane | 'any'
  /** What the agent can do: no job that requires more is for it. */
  features: readonly string[]
  limit: number
}

/**
 * The queue: the oldest jobs of a pool that nobody else is taking right now become an agent's, under a lease. One
 * statement serves all claims and writes their audit entries, so that it costs one round trip and one commit.
 */
export async function claimJobs(context: Context, claims: readonly Claim[]): Promise<Claimed[]> {
  const rows = await claimFresh(context, claims)
  const stale = rows.filter(({ what }) => what === 'stale').map(({ id }) => id)
  if (stale.length > 0) {
    await signStaleAgain(context, stale)
    rows.push(...(await claimFresh(context, remaining(claims, rows))))
  }
  const claimed = claims.map((): Claimed => ({ jobs: [], isMore: false }))
  for (const row of rows.toSorted((a, b) => (a.id < b.id ? -1 : 1))) {
    const document = { text: row.manifest, keyId: row.manifest_key_id, signature: row.manifest_signature }
    if (row.what === 'claimed') claimed[row.claim]!.jobs.push({ id: row.id, fence: row.fence, document })
    if (row.what === 'more') claimed[row.claim]!.isMore = true
  }
  return claimed
}

function remaining(claims: readonly Claim[], claimed: readonly ClaimedRow[]): Claim[] {
  return claims.map((claim, index) => ({
    ...claim,
    limit: claim.limit - claimed.filter((row) => row.what === 'claimed' && row.claim === index).length,
  }))
}

async function claimFresh(context: Context, claims: readonly Claim[]): Promise<ClaimedRow[]> {
  const at = isoNow(context)
  const queues = queuesOf(claims)
  const entry = assignedEntry(context, at)
  const query = CompiledQuery.raw(CLAIM, [
    claims.map((c) => c.agentId),
    claims.map((c) => c.sessionId),
    queues.map((q) => q.pool),
    queues.map((q) => q.claims.join(' ')),
    context.keys.current().keyId,
    freshSince(context),
    at,
    context.config.leaseSeconds,
    entry.before,
    entry.after,
    queues.map((q) => q.lane),
    queues.map((q) => q.features),
  ]) as CompiledQuery<ClaimedRow>
  const { rows } = await context.db.executeQuery(query)
  return rows
}

const fill = (template: string) => `
  replace(replace(replace(replace(replace(${template}, '@chain', coalesce(install_id, '${SERVER_CHAIN}')), '@job', id),
    '@agent', agent_id), '@digest', manifest_digest), '"@fence"', fence::text)`

const INTERACTIVE = `kind in (${INTERACTIVE_KINDS.map((kind) => `'${kind}'`).join(', ')})`

/** Alone, the operator counts as so rare that the planner reads and sorts the whole queue instead of its first few. */
const ABLE = 'coalesce(requires <@ queues.features, false)'

/** The oldest of a pool, as many as there are slots. Each lane by itself: a few interactive ones behind ten thousand others have an index of their own. */
const pick = (ofQueue: string, ofJob: string) => `
    select oldest.id, queues.claims[oldest.n] as claim, oldest.fresh from queues cross join lateral (
      select id, fresh, row_number() over (order by id) as n from (
        select id, manifest_key_id = $5 and manifest_issued_at > $6 as fresh
        from job where pool = queues.pool and status = 'queued' and ${ABLE} and ${ofJob}
        order by id limit cardinality(queues.claims) for update skip locked
      ) as free
    ) as oldest where ${ofQueue}`

/** Claims of pools in which others wait behind what they get, or are just being taken by somebody else. */
const behind = (ofQueue: string, ofJob: string) => `
    select unnest(claims) as claim from queues where ${ofQueue} and exists (
      select from job where pool = queues.pool and status = 'queued' and ${ABLE} and ${ofJob}
      order by id offset cardinality(queues.claims) limit 1
    )`

const LANES = [
  [`lane = 'ordinary'`, `not (${INTERACTIVE})`],
  [`lane = 'interactive'`, INTERACTIVE],
  [`lane = 'any'`, 'true'],
] as const
const inLanes = (part: typeof pick) =>
  LANES.map(([ofQueue, ofJob]) => part(ofQueue, ofJob)).join(' union all ')

/**
 * Agents of one pool take turns. A session that was taken over cannot deliver any more, so it gets none. A job whose
 * manifest has little time left, or an old key, is left for `signStaleAgain`. One text, written once: it is what stands
 * between a job's commit and its agent.
 */
export const CLAIM = `
  with claims as materialized (
    select c.n - 1 as claim, agent.id as agent_id
    from unnest($1::text[], $2::text[]) with ordinality as c(agent_id, session_id, n)
    join (${SHARED_AGENTS}
    ) as agent on agent.id = c.agent_id and agent.session_id = c.session_id
  ), queues as materialized (
    select pool, lane, string_to_array(features, ' ') as features, array(
      select claims.claim from unnest(string_to_array(s.claims, ' ')::int[]) with ordinality as c(claim, n)
      join claims on claims.claim = c.claim order by c.n
    ) as claims
    from unnest($3::text[], $4::text[], $11::text[], $12::text[]) as s(pool, claims, lane, features)
  ), picked as materialized (${inLanes(pick)}
  ), claimed as (
    update job set status = 'assigned', agent_id = claims.agent_id, assigned_at = $7,
      lease_until = clock_timestamp() + $8::float8 * interval '1 second'
    from picked join claims on claims.claim = picked.claim
    where job.id = picked.id and picked.fresh
    returning job.id, picked.claim, fence, job.agent_id, install_id, manifest, manifest_key_id, manifest_signature,
      manifest_digest
  ), entries as (
    select id, install_id as chain, ${fill('$9')} as before, ${fill('$10')} as after from claimed
  ), ${APPEND_MADE_ENTRIES}
  select id, claim, fence, manifest, manifest_key_id, manifest_signature, 'claimed' as what
  from claimed cross join (select count(*) from appended) as written
  union all
  select id, claim, 0, '', '', '', 'stale' from picked where not fresh
  union all
  select '', claim, 0, '', '', '', 'more' from (${inLanes(behind)}) as waiting`

/** The audit entry of an assignment, with marks where the statement puts in what it picked: ids and digests only. */
function assignedEntry(context: Context, at: string): { before: string; after: string } {
  const marks = { id: '@job', agentId: '@agent', manifestDigest: '@digest', fence: '@fence' }
  return entryParts('@chain', assignedFact(context, marks), at)
}

/** What was queued before this may have too little time left to be run. */
function freshSince(context: Context): string {
  return isoNow(context, -context.config.manifestTtlSeconds / 2)
}

interface Queue extends Pick<Claim, 'pool' | 'lane'> {
  /** With spaces between. */
  features: string
  /** Which claim gets the first, the second, … job. */
  claims: number[]
}

/** Pure: by pool, lane and what the agents can do. */
export function queuesOf(claims: readonly Claim[]): Queue[] {
  const queues = new Map<string, Queue>()
  for (const [index, { pool, lane, features: names }] of claims.entries()) {
    const features = names.toSorted().join(' ')
    const key = JSON.stringify([lane, pool, features])
    const queue = queues.get(key) ?? { pool, lane, features, claims: [] }
    queue.claims.push(index)
    queues.set(key, queue)
  }
  return [...queues.values()].map(({ claims: here, ...queue }) => {
    const turns = Math.max(...here.map((index) => claims[index]!.limit))
    const inTurns = Array.from({ length: turns }, (_, turn) => here.filter((i) => turn < claims[i]!.limit))
    return { ...queue, claims: inTurns.flat() }
  })
}

/** A job that waited for long, or across a change of keys, leaves with a manifest that has time left. */
async function signStaleAgain(context: Context, jobIds: string[]): Promise<void> {
  await transact(context, async (tx) => {
    const jobs = await lockJobRows(tx, jobIds)
    for (const { id, fence } of jobs.filter(({ status }) => status === 'queued')) {
      const signed = await signAgain(context, tx, id, fence)
      await tx.db.updateTable('job').set(signed).where('id', '=', id).execute()
    }
  })
}

/** What the server believes about the jobs that agents hold, and about those that they name. */
export async function knownJobs(tx: Tx, agentIds: string[], named: string[]): Promise<KnownJob[]> {
  const { rows } = await sql<{
    id: string
    fence: number
    status: JobStatus
    agent_id: string | null
    cancel_requested_at: string | null
  }>`
    with known as (
      select id from job where agent_id = any(${agentIds}) and status in ('assigned', 'running', 'lost')
      union
      select job_id from job_hold where agent_id = any(${agentIds})
      union
      select unnest(${named}::text[])
    )
    select id, fence, status, agent_id, cancel_requested_at from known join job using (id)`.execute(tx.db)
  const lapsed = await loadLapsed(
    tx,
    rows.filter(({ status }) => status === 'lapsed').map(({ id }) => id),
  )
  return rows.map((row) => ({
    jobId: row.id,
    fence: row.fence,
    status: row.status,
    agentId: row.agent_id,
    cancelRequested: row.cancel_requested_at !== null,
    isReplaceable: lapsed.get(row.id)?.isReplaceable ?? false,
  }))
}
