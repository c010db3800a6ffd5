import type { Context } from '../context.ts'
import type { Session } from './session.ts'

/** What an agent must hear besides new jobs: that it was superseded or ended, cancels, sealed secrets. */
export async function controlAgent(context: Context, session: Session): Promise<void> {
  try {
    const agent = await context.db
      .selectFrom('agent')
      .select(['status', 'session_id', 'boot_counter'])
      .where('id', '=', session.agentId)
      .executeTakeFirst()
    if (!agent || agent.status === 'revoked')
      return session.reject('revoked', 'this agent’s identity was ended')
    if (agent.status === 'replaced')
      return session.reject('superseded', 'another agent took over this install')
    if (agent.session_id !== session.sessionId && agent.session_id !== null) {
      return session.reject(
        'superseded',
        `a newer session of this agent (start ${agent.boot_counter}) took over`,
      )
    }
    await sendCancels(context, session)
    if (session.installId) await sendSecrets(context, session, session.installId)
  } catch (error) {
    context.log.warn(
      { err: error, agentId: session.agentId },
      'control of an agent is late; the poll tries again',
    )
  }
}

async function sendCancels(context: Context, session: Session): Promise<void> {
  const jobs = await context.db
    .selectFrom('job')
    .select(['id', 'fence'])
    .where('agent_id', '=', session.agentId)
    .where('status', 'in', ['assigned', 'running'])
    .where('cancel_requested_at', 'is not', null)
    .execute()
  for (const job of jobs) session.send({ type: 'job.cancel', jobId: job.id, fence: job.fence })
}

async function sendSecrets(context: Context, session: Session, installId: string): Promise<void> {
  const secrets = await context.db
    .selectFrom('install_secret')
    .select(['id', 'name', 'ciphertext'])
    .where('install_id', '=', installId)
    .where('delivered_at', 'is', null)
    .orderBy('id')
    .execute()
  for (const secret of secrets) {
    session.send({
      type: 'secret.deliver',
      secretId: secret.id,
      name: secret.name,
      ciphertext: secret.ciphertext.toString('base64'),
    })
  }
}
