import type { Tx } from '../store/transaction.ts'

/** How long an owner's word counts that another agent may take the place of theirs. */
const RELEASE_MS = 86_400_000

export interface InPlace {
  id: string
  status: 'enrolled' | 'replaced' | 'revoked'
  released_until: string | null
}

/** The agent that came last to an install, whatever became of it. */
export async function newestAgent(tx: Tx, installId: string): Promise<InPlace | undefined> {
  return tx.db
    .selectFrom('agent')
    .select(['id', 'status', 'released_until'])
    .where('install_id', '=', installId)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/**
 * Pure: a token replaces the agent it was made to replace and no later one, and that one only when its owner gave it up
 * or an owner of the server ended it. Whether it is connected says nothing: a line can be cut on purpose.
 */
export function refuseTakeOver(
  inPlace: InPlace | undefined,
  token: { replaces: string | null },
  nowMs: number,
): { code: 'conflict' | 'agent_in_place'; message: string; remedy: string } | undefined {
  if (!inPlace) return undefined
  if (inPlace.id !== token.replaces) {
    return {
      code: 'conflict',
      message: `this join token was not made to replace agent ${inPlace.id}, which came to this install before`,
      remedy: 'Ask an owner of the server for a new join token.',
    }
  }
  const released = inPlace.released_until !== null && Date.parse(inPlace.released_until) > nowMs
  if (inPlace.status !== 'enrolled' || released) return undefined
  return {
    code: 'agent_in_place',
    message: `agent ${inPlace.id} is in this install's place, and nobody has given it up`,
    remedy: `Its owner runs \`tenon agent release\` beside it; if it is gone, an owner of the server runs \`tenon agent revoke ${inPlace.id}\`. Then start this agent again with the same token.`,
  }
}

/** Pure: what an agent's signed event of that kind means for whoever comes after it. No clock that is ahead makes it longer. */
export function releaseOf(event: { action: string; at: string }, nowMs: number): { released_until?: string } {
  if (event.action !== 'agent.released') return {}
  const fromMs = Math.min(Date.parse(event.at), nowMs)
  return { released_until: new Date(fromMs + RELEASE_MS).toISOString() }
}
