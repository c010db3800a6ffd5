import type { Feature } from '@tenon/core'
import { standingsOf } from '../agents/attention.ts'
import type { Context } from '../context.ts'
import { cancelsFor } from '../jobs/cancels.ts'
import { secretsToSend } from '../secrets/deliver.ts'
import type { Session } from './session.ts'

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
  const agents = await standingsOf(
    context.db,
    sessions.map((s) => s.agentId),
  )
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
  const cancels = await cancelsFor(
    context,
    sessions.map((s) => s.agentId),
  )
  const unanswering = new Set<Session>()
  for (const { id, fence, agent_id, overdue } of cancels) {
    const session = sessions.find((s) => s.agentId === agent_id)
    session?.send({ type: 'job.cancel', jobId: id, fence })
    if (session && overdue && !session.features.includes(HOLD_ANSWERS)) unanswering.add(session)
  }
  for (const session of unanswering) session.reject('busy', 'a job was held for too long; say what is held')
}

/** An agent without it drops in silence what it may not start any more: only its next inventory tells. */
const HOLD_ANSWERS: Feature = 'hold-answers'

async function sendSecrets(context: Context, sessions: readonly Session[]): Promise<void> {
  const secrets = await secretsToSend(
    context,
    sessions.flatMap((s) => s.installId ?? []),
  )
  for (const { id, install_id, name, ciphertext } of secrets) {
    sessions
      .find((s) => s.installId === install_id)
      ?.send({ type: 'secret.deliver', secretId: id, name, ciphertext: ciphertext.toString('base64') })
  }
}
