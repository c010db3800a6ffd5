import type { Feature } from '@tenon/core'
import { sql } from 'kysely'
import { isoNow, type Context } from '../context.ts'
import { overdueSince } from '../jobs/lapse.ts'
import type { Session } from './session.ts'

/** A secret that an agent could not store: a full disk may have room by then. */
const OFFER_AGAIN_SECONDS = 300

/** What agents must hear besides new jobs: that they were superseded or ended, cancels, sealed secrets. */
export async function controlAgents(context: Context, sessions: readonly Session[]): Promise<void> {
  try {
    const living = await rejectEnded(context, sessions)
    await Promise.all([sendCancels(context, living), sendSecrets(context, living)])
  } catch (error) {
    context.log.warn(
      { err: error, agentIds: sessions.map((s) => s.agentId) },
      'control of agents is late; the poll tries again',
    )
  }
}

async function rejectEnded(context: Context, sessions: readonly Session[]): Promise<Session[]> {
  const rows = await context.db
    .selectFrom('agent')
    .select(['id', 'status', 'session_id', 'boot_counter'])
    .where(sql<boolean>`id = any(${sessions.map((s) => s.agentId)})`)
    .execute()
  const agents = new Map(rows.map((row) => [row.id, row]))
  return sessions.filter((session) => {
    const agent = agents.get(session.agentId)
    if (!agent || agent.status === 'revoked') session.reject('revoked', 'this agent’s identity was ended')
    else if (agent.status === 'replaced') session.reject('superseded', 'another agent took over this install')
    else if (agent.session_id !== session.sessionId && agent.session_id !== null)
      session.reject('superseded', `a newer session of this agent (start ${agent.boot_counter}) took over`)
    else return true
    return false
  })
}

async function sendCancels(context: Context, sessions: readonly Session[]): Promise<void> {
  const ids = sessions.map((s) => s.agentId)
  const { rows } = await sql<{ id: string; fence: number; agent_id: string; overdue: boolean }>`
    select id, fence, agent_id, false as overdue from job
    where agent_id = any(${ids}) and status in ('assigned', 'running') and cancel_requested_at is not null
    union all
    select job.id, job.fence, job.agent_id, start_before < ${overdueSince(context)} from job_hold join job on job.id = job_hold.job_id
    where job_hold.agent_id = any(${ids})
      and (job.cancel_requested_at is not null or start_before < ${overdueSince(context)})`.execute(
    context.db,
  )
  const unanswering = new Set<Session>()
  for (const { id, fence, agent_id, overdue } of rows) {
    const session = sessions.find((s) => s.agentId === agent_id)
    session?.send({ type: 'job.cancel', jobId: id, fence })
    if (session && overdue && !session.features.includes(HOLD_ANSWERS)) unanswering.add(session)
  }
  for (const session of unanswering) session.reject('busy', 'a job was held for too long; say what is held')
}

/** An agent without it drops in silence what it may not start any more: only its next inventory tells. */
const HOLD_ANSWERS: Feature = 'hold-answers'

async function sendSecrets(context: Context, sessions: readonly Session[]): Promise<void> {
  const installs = sessions.flatMap((s) => s.installId ?? [])
  if (installs.length === 0) return
  const { rows } = await sql<{ id: number; install_id: string; name: string; ciphertext: Buffer }>`
    select id, install_id, name, ciphertext from install_secret
    where install_id = any(${installs}) and delivered_at is null
      and (refused_at is null or refused_at < ${isoNow(context, -OFFER_AGAIN_SECONDS)}) order by id`.execute(
    context.db,
  )
  for (const { id, install_id, name, ciphertext } of rows) {
    sessions
      .find((s) => s.installId === install_id)
      ?.send({ type: 'secret.deliver', secretId: id, name, ciphertext: ciphertext.toString('base64') })
  }
}
