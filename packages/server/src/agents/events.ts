import { type AuditHead, type Json, type SignedDocument } from '@tenon/core'
import type { AgentEvent } from '@tenon/protocol'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { transactWithHeads } from '../store/transaction.ts'
import { releaseOf } from './take-over.ts'

/** An agent's signed word of what happened there. Numbered by the agent, so that one that arrives twice is written once. */
export async function noteEvent(
  context: Context,
  agent: { id: string; installId: string | null },
  event: AgentEvent,
  signed: SignedDocument,
): Promise<AuditHead | null> {
  const { heads } = await transactWithHeads(context, async (tx) => {
    const moved = await tx.db
      .updateTable('agent')
      .set({ event_seq: event.seq, ...pauseOf(event), ...releaseOf(event, context.now()) })
      .where('id', '=', agent.id)
      .where('event_seq', '<', event.seq)
      .returning('id')
      .executeTakeFirst()
    if (!moved) return
    tx.auditWord(chainOf(agent.installId), {
      actor: { type: 'agent', id: agent.id },
      action: event.action,
      subject: event.jobId ? { type: 'job', id: event.jobId } : { type: 'agent', id: agent.id },
      outcome: isBadNews(event) ? 'failed' : 'ok',
      manifestDigest: null,
      details: { event: signed as unknown as Json },
    })
  })
  return heads.get(agent.installId ?? '') ?? null
}

function pauseOf({ action, at }: AgentEvent): { paused_at?: string | null } {
  if (action === 'agent.paused') return { paused_at: at }
  return action === 'agent.resumed' ? { paused_at: null } : {}
}

function isBadNews({ action, details }: AgentEvent): boolean {
  if (action === 'agent.synced') return details['outcome'] !== 'succeeded'
  return action === 'agent.audit_mismatch' || action === 'agent.dropped'
}
