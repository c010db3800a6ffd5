import {
  isSignedBy,
  signingBytes,
  type AgentRole,
  type AuditHead,
  type Reconciliation,
  type SignedDocument,
} from '@tenon/core'
import { isAgreed, WIRE_RANGE, type AgentHello, type RejectCode } from '@tenon/protocol'
import { sql } from 'kysely'
import { chainOf } from '../audit/chains.ts'
import { checkKeptHeads } from '../audit/kept-heads.ts'
import type { Context } from '../context.ts'
import { verify } from '../crypto.ts'
import { settleInventories, runningOf } from '../jobs/inventory.ts'
import { finishAgentSteps } from '../runs/agent-steps.ts'
import { lockAgents, type LockedAgent } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { agentKeysOf } from './keys.ts'
import { startFact } from './start-fact.ts'

export interface OpenedSession {
  sessionId: string
  role: AgentRole
  installId: string | null
  pool: string
  /** The one it has now first: what waited for a session may be signed by one before it. */
  publicKeys: string[]
  verdicts: Reconciliation['verdicts']
  /** Jobs of the inventory that count against the slots. */
  held: string[]
  auditHead: AuditHead | null
  eventSeq: number
  features: string[]
}

export type Handshake =
  | { ok: true; session: OpenedSession }
  | { ok: false; code: RejectCode; message: string }

/** What the agent must sign to prove that it is the one that enrolled, here and now. */
export interface Challenge {
  agentId: string
  agentNonce: string
  nonce: string
  serverId: string
  wire: number
}

export interface Opening {
  challenge: Challenge
  hello: AgentHello
  signed: SignedDocument
}

/** Verifies the agents, lets the newer start win, and settles with each what both sides hold. One transaction for all. */
export async function openSessions(context: Context, openings: readonly Opening[]): Promise<Handshake[]> {
  const ids = openings.map(({ challenge }) => challenge.agentId)
  const isFirst = (index: number) => ids.indexOf(ids[index]!) === index
  const answers = await transact(context, (tx) =>
    openAll(
      context,
      tx,
      openings.filter((_, index) => isFirst(index)),
    ),
  )
  // Another opening of the same agent must see what the first one left.
  const others = openings.filter((_, index) => !isFirst(index))
  const later = others.length > 0 ? await openSessions(context, others) : []
  return openings.map((_, index) => (isFirst(index) ? answers.shift()! : later.shift()!))
}

async function openAll(context: Context, tx: Tx, openings: readonly Opening[]): Promise<Handshake[]> {
  const rows = await lockAgents(
    tx,
    openings.map(({ challenge }) => challenge.agentId),
  )
  const agents = new Map(rows.map((row) => [row.id, row]))
  const judged = openings.map((opening) => {
    const agent = agents.get(opening.challenge.agentId)
    const refusal = refusalOf(context, tx, agent, opening)
    const sessionId = context.newId('session')
    const { hello, signed } = opening
    return refusal ?? { agent: agent!, hello, signed, sessionId }
  })
  const accepted = judged.filter((one): one is Accepted => 'agent' in one)
  const inventories = await settleInventories(
    context,
    tx,
    accepted.map(({ agent, hello }) => ({ agentId: agent.id, inventory: hello.inventory })),
  )
  await saveSessions(context, tx, accepted)
  await finishAgentSteps(
    context,
    tx,
    accepted.flatMap(({ agent }) => agent.install_id ?? []),
  )
  const heads = await checkKeptHeads(
    context,
    tx,
    accepted.map(({ agent, hello }) => ({
      agentId: agent.id,
      chain: agent.install_id,
      kept: hello.auditHead,
    })),
  )
  const keys = await agentKeysOf(
    tx.db,
    accepted.map(({ agent }) => agent),
  )
  return judged.map((one) =>
    'agent' in one ? { ok: true, session: sessionOf(one, inventories.get(one.agent.id)!, heads, keys) } : one,
  )
}

function sessionOf(
  { agent, hello, sessionId }: Accepted,
  result: Reconciliation,
  heads: ReadonlyMap<string, AuditHead>,
  keys: ReadonlyMap<string, string[]>,
): OpenedSession {
  return {
    sessionId,
    role: agent.role,
    installId: agent.install_id,
    pool: agent.pool,
    publicKeys: keys.get(agent.id) ?? [],
    verdicts: result.verdicts,
    held: runningOf(hello.inventory, result),
    auditHead: heads.get(agent.install_id ?? '') ?? null,
    eventSeq: agent.event_seq,
    features: hello.features,
  }
}

type Refused = Extract<Handshake, { ok: false }>

function refusalOf(
  context: Context,
  tx: Tx,
  agent: LockedAgent | undefined,
  opening: Opening,
): Refused | undefined {
  if (!agent) return { ok: false, code: 'unknown_agent', message: 'this server knows no such agent' }
  const { challenge, hello, signed } = opening
  const { bootCounter } = hello
  if (!isSignedBy('agent-hello/2', signed, agent.public_key, verify) || !answers(challenge, hello)) {
    const message = 'the handshake is not signed by the key that enrolled'
    return refuse(context, tx, agent, opening, 'bad_signature', message)
  }
  if (!isAgreed(WIRE_RANGE, hello.speaks, challenge.wire)) {
    const message = 'somebody in between changed which versions the agent speaks'
    return refuse(context, tx, agent, opening, 'wire_version', message)
  }
  if (agent.status === 'revoked')
    return { ok: false, code: 'revoked', message: 'this agent’s identity was ended' }
  if (agent.status === 'replaced')
    return { ok: false, code: 'superseded', message: 'another agent took over this install' }
  if (bootCounter > agent.boot_counter || isSameStart(agent, hello)) return undefined
  const message = `a newer start (${agent.boot_counter}) of this agent is known; this one is ${bootCounter}. Two copies share one identity: stop one, and enrol it anew`
  return refuse(context, tx, agent, opening, 'quarantined', message)
}

/** Signed for this very challenge, and no other. */
function answers(challenge: Challenge, hello: AgentHello): boolean {
  const { agentId, agentNonce, nonce, serverId, wire } = challenge
  return (
    hello.agentId === agentId &&
    hello.agentNonce === agentNonce &&
    hello.nonce === nonce &&
    hello.serverId === serverId &&
    hello.wire === wire
  )
}

function isSameStart(agent: LockedAgent, hello: AgentHello): boolean {
  return hello.bootCounter === agent.boot_counter && hello.bootId === agent.boot_id
}

interface Accepted {
  agent: LockedAgent
  hello: AgentHello
  signed: SignedDocument
  sessionId: string
}

function refuse(
  context: Context,
  tx: Tx,
  agent: LockedAgent,
  opening: Opening,
  code: 'bad_signature' | 'wire_version' | 'quarantined',
  message: string,
): Refused {
  const chain = chainOf(agent.install_id)
  // Whoever does not have the agent's key, or stands between it and the server, is a stranger.
  if (code !== 'quarantined' && !context.refusals.admit(opening, chain, `agent.${code}`, code, context.now()))
    return { ok: false, code, message }
  tx.audit(chain, {
    actor: { type: 'server', id: context.serverId },
    action: `agent.${code}`,
    subject: { type: 'agent', id: agent.id },
    outcome: 'refused',
    manifestDigest: null,
    details: { message },
  })
  return { ok: false, code, message }
}

async function saveSessions(context: Context, tx: Tx, accepted: readonly Accepted[]): Promise<void> {
  if (accepted.length === 0) return
  const column = <V>(value: (one: Accepted) => V) => accepted.map(value)
  const recipients = column(({ agent, hello }) => (recipientHolds(agent, hello) ? hello.recipient : null))
  await sql`
    update agent set boot_counter = s.boot_counter, boot_id = s.boot_id, session_id = s.session_id,
      process_id = ${context.processId}, last_seen_at = ${tx.at}, version = s.version, slots = s.slots,
      runtime = s.runtime, features = string_to_array(s.features, ' '), recipient = coalesce(s.recipient, agent.recipient),
      recipient_signature = coalesce(s.signature, agent.recipient_signature)
    from unnest(${column(({ agent }) => agent.id)}::text[], ${column(({ hello }) => hello.bootCounter)}::bigint[],
      ${column(({ hello }) => hello.bootId)}::text[], ${column((one) => one.sessionId)}::text[],
      ${column(({ hello }) => hello.version)}::text[], ${column(({ hello }) => hello.slots)}::int[],
      ${column(({ hello }) => JSON.stringify(hello.runtime))}::jsonb[], ${recipients.map((r) => r?.age ?? null)}::text[],
      ${recipients.map((r) => r?.signature ?? null)}::text[],
      ${column(({ hello }) => hello.features.join(' '))}::text[])
      as s(id, boot_counter, boot_id, session_id, version, slots, runtime, recipient, signature, features)
    where agent.id = s.id`.execute(tx.db)
  for (const { agent, hello, signed } of accepted) {
    tx.nudge(`agent:${agent.id}`)
    if (isSameStart(agent, hello)) continue
    const start = { id: agent.id, isFirst: agent.boot_counter === 0 }
    tx.audit(chainOf(agent.install_id), startFact(start, hello, signed))
  }
}

function recipientHolds(agent: LockedAgent, { recipient }: AgentHello): boolean {
  if (recipient === null) return false
  const statement = { agentId: agent.id, recipient: recipient.age }
  return verify(agent.public_key, signingBytes('agent-recipient/1', statement), recipient.signature)
}
