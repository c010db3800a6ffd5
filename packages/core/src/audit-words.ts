import type { AuditEntry } from './audit.ts'
import { signingBytes, type SigningContext } from './canonical.ts'
import type { Json } from './json.ts'
import { documentBytes, parseDocument } from './signed-text.ts'

/** What an agent signed, as an audit entry keeps it. */
export interface AgentWord {
  agentId: string
  bytes: Uint8Array
  signature: string
}

/** By the name under which `details` has it. */
const CONTEXTS: Record<string, SigningContext> = {
  report: 'job-report/1',
  event: 'agent-event/1',
  verdict: 'agent-verdict/1',
  hello: 'agent-hello/2',
}

/** Pure: undefined where the entry holds no agent's word. */
export function agentWordOf({
  details,
  actor,
}: Pick<AuditEntry, 'details' | 'actor'>): AgentWord | undefined {
  if (!isRecord(details)) return undefined
  for (const [name, context] of Object.entries(CONTEXTS)) {
    const said = details[name]
    if (!isRecord(said)) continue
    const { text, signature } = said
    if (typeof text === 'string' && typeof signature === 'string')
      return { agentId: agentOf(parseDocument(text)), bytes: documentBytes(context, text), signature }
    if (typeof details['signature'] === 'string')
      return firstForm(context, said, isRecord(actor) ? String(actor.id) : '', details['signature'])
  }
  return undefined
}

/** Entries of version 0.1 keep what was signed as a value; an event's agent is then named by the entry alone. */
function firstForm(
  context: SigningContext,
  said: { [key: string]: Json },
  actorId: string,
  signature: string,
): AgentWord {
  const agentId = typeof said['agentId'] === 'string' ? said['agentId'] : actorId
  return { agentId, bytes: signingBytes(context, { ...said, agentId }), signature }
}

function agentOf(said: unknown): string {
  const { agentId } = (said ?? {}) as { agentId?: unknown }
  return typeof agentId === 'string' ? agentId : ''
}

function isRecord<T>(value: T): value is T & { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
