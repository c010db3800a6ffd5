import {
  reconcile,
  signingBytes,
  type AgentRole,
  type AuditHead,
  type HeldJob,
  type Reconciliation,
} from '@tenon/core'
import type { AgentFrame, RejectCode } from '@tenon/protocol'
import type { Context } from '../context.ts'
import { isoNow } from '../context.ts'
import { verify } from '../crypto.ts'
import { knownJobs } from '../store/jobs.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { advance, lockRun } from './advance-run.ts'
import { chainOf } from './audit-chains.ts'
import { endGoneJob, requeueJob } from './job-control.ts'

type Hello = Extract<AgentFrame, { type: 'hello' }>

export interface OpenedSession {
  sessionId: string
  role: AgentRole
  installId: string | null
  pool: string
  publicKey: string
  verdicts: Reconciliation['verdicts']
  /** Jobs of the inventory that count against the slots. */
  held: string[]
  auditHead: AuditHead | null
  eventSeq: number
}

export type Handshake =
  | { ok: true; session: OpenedSession }
  | { ok: false; code: RejectCode; message: string }

/** What the agent must sign to prove that it is the one that enrolled, here and now. */
export interface Challenge {
  agentId: string
  agentNonce: string
  nonce: string
  wire: number
}

/** Verifies the agent, lets the newer start win, and settles with it what each side holds. */
export async function openSession(context: Context, challenge: Challenge, hello: Hello): Promise<Handshake> {
  return transact(context, async (tx) => {
    const agent = await tx.db
      .selectFrom('agent')
      .selectAll()
      .where('id', '=', challenge.agentId)
      .forUpdate()
      .executeTakeFirst()
    if (!agent) return { ok: false, code: 'unknown_agent', message: 'this server knows no such agent' }
    const statement = signingBytes('agent-hello/1', {
      ...challenge,
      bootCounter: hello.bootCounter,
      bootId: hello.bootId,
      serverId: context.serverId,
    })
    if (!verify(agent.public_key, statement, hello.signature)) {
      return refuse(
        context,
        tx,
        agent,
        'bad_signature',
        'the handshake is not signed by the key that enrolled',
      )
    }
    if (agent.status === 'revoked')
      return { ok: false, code: 'revoked', message: 'this agent’s identity was ended' }
    if (agent.status === 'replaced')
      return { ok: false, code: 'superseded', message: 'another agent took over this install' }
    const sameStart = hello.bootCounter === agent.boot_counter && hello.bootId === agent.boot_id
    if (hello.bootCounter <= agent.boot_counter && !sameStart) {
      return refuse(
        context,
        tx,
        agent,
        'quarantined',
        `a newer start (${agent.boot_counter}) of this agent is known; this one is ${hello.bootCounter}. Two copies share one identity: stop one, and enrol it anew`,
      )
    }
    const sessionId = context.newId('session')
    const reconciliation = await settleInventory(context, tx, agent.id, hello.inventory)
    await saveSession(context, tx, agent, hello, sessionId, sameStart)
    if (agent.install_id) await finishAgentSteps(context, tx, agent.install_id)
    return {
      ok: true,
      session: {
        sessionId,
        role: agent.role,
        installId: agent.install_id,
        pool: agent.pool,
        publicKey: agent.public_key,
        verdicts: reconciliation.verdicts,
        held: reconciliation.verdicts.filter((v) => v.verdict !== 'forget').map((v) => v.jobId),
        auditHead: await checkAuditHead(context, tx, agent, hello.auditHead),
        eventSeq: agent.event_seq,
      },
    }
  })
}

type Agent = {
  id: string
  install_id: string | null
  boot_counter: number
  recipient: string | null
  public_key: string
}

function refuse(
  context: Context,
  tx: Tx,
  agent: Agent,
  code: 'bad_signature' | 'quarantined',
  message: string,
): Handshake {
  tx.audit(chainOf(agent.install_id), {
    actor: { type: 'server', id: context.serverId },
    action: `agent.${code}`,
    subject: { type: 'agent', id: agent.id },
    outcome: 'refused',
    manifestDigest: null,
    details: { message },
  })
  return { ok: false, code, message }
}

async function settleInventory(
  context: Context,
  tx: Tx,
  agentId: string,
  held: readonly HeldJob[],
): Promise<Reconciliation> {
  const known = await knownJobs(
    tx,
    agentId,
    held.map((job) => job.jobId),
  )
  const result = reconcile(agentId, held, known)
  for (const jobId of result.requeue)
    await requeueJob(context, tx, jobId, agentId, 'the agent never received it')
  for (const jobId of result.gone) await endGoneJob(context, tx, jobId, agentId)
  const kept = result.verdicts.filter((v) => v.verdict !== 'forget').map((v) => v.jobId)
  if (kept.length > 0) {
    await tx.db
      .updateTable('job')
      .set((eb) => ({
        status: eb
          .case()
          .when('status', '=', 'lost')
          .then('running' as const)
          .else(eb.ref('status'))
          .end(),
        lease_until: isoNow(context, context.config.leaseSeconds),
      }))
      .where('id', 'in', kept)
      .where('status', 'in', ['assigned', 'running', 'lost'])
      .execute()
  }
  for (const jobId of result.recover) {
    const job = known.find((k) => k.jobId === jobId)!
    const row = await tx.db
      .selectFrom('job')
      .select(['install_id', 'manifest_digest', 'run_id'])
      .where('id', '=', jobId)
      .executeTakeFirstOrThrow()
    tx.audit(chainOf(row.install_id), {
      actor: { type: 'agent', id: agentId },
      action: 'job.recovered',
      subject: { type: 'job', id: jobId },
      outcome: 'ok',
      manifestDigest: row.manifest_digest,
      details: { fence: job.fence },
    })
    if (row.run_id) tx.nudge(`run:${row.run_id}`)
  }
  return result
}

async function saveSession(
  context: Context,
  tx: Tx,
  agent: Agent,
  hello: Hello,
  sessionId: string,
  sameStart: boolean,
): Promise<void> {
  const recipientHolds =
    hello.recipient !== null &&
    verify(
      agent.public_key,
      signingBytes('agent-recipient/1', { agentId: agent.id, recipient: hello.recipient.age }),
      hello.recipient.signature,
    )
  await tx.db
    .updateTable('agent')
    .set({
      boot_counter: hello.bootCounter,
      boot_id: hello.bootId,
      session_id: sessionId,
      process_id: context.processId,
      last_seen_at: tx.at,
      version: hello.version,
      slots: hello.slots,
      runtime: JSON.stringify(hello.runtime),
      ...(recipientHolds
        ? { recipient: hello.recipient!.age, recipient_signature: hello.recipient!.signature }
        : {}),
    })
    .where('id', '=', agent.id)
    .execute()
  tx.nudge(`agent:${agent.id}`)
  if (sameStart) return
  tx.audit(chainOf(agent.install_id), {
    actor: { type: 'agent', id: agent.id },
    action: agent.boot_counter === 0 ? 'agent.connected' : 'agent.superseded_earlier',
    subject: { type: 'agent', id: agent.id },
    outcome: 'ok',
    manifestDigest: null,
    details: {
      bootCounter: hello.bootCounter,
      version: hello.version,
      runtime: hello.runtime.name,
      confinement: hello.runtime.confinement,
    },
  })
}

/** A provision run waits for its agent in a step of its own; here it is. */
async function finishAgentSteps(context: Context, tx: Tx, installId: string): Promise<void> {
  const waiting = await tx.db
    .selectFrom('step')
    .innerJoin('run', 'run.id', 'step.run_id')
    .select(['step.id', 'step.run_id'])
    .where('run.install_id', '=', installId)
    .where('run.status', '=', 'active')
    .where('step.kind', '=', 'agent')
    .where('step.status', '=', 'active')
    .execute()
  for (const step of waiting) {
    const run = await lockRun(tx, step.run_id)
    await tx.db
      .updateTable('step')
      .set({ status: 'succeeded', finished_at: tx.at })
      .where('id', '=', step.id)
      .where('status', '=', 'active')
      .execute()
    if (run) await advance(context, tx, run)
  }
}

/** The agent kept the head that was acknowledged to it: if the chain no longer holds it, somebody cut or changed the audit. */
async function checkAuditHead(
  context: Context,
  tx: Tx,
  agent: Agent,
  kept: AuditHead | null,
): Promise<AuditHead | null> {
  if (!agent.install_id) return null
  const head = await tx.db
    .selectFrom('audit_head')
    .selectAll()
    .where('chain', '=', agent.install_id)
    .executeTakeFirst()
  if (kept && kept.chain === agent.install_id && kept.seq > 0) {
    const entry = await tx.db
      .selectFrom('audit_entry')
      .select('hash')
      .where('chain', '=', kept.chain)
      .where('seq', '=', kept.seq)
      .executeTakeFirst()
    if (entry?.hash !== kept.hash) {
      context.log.error(
        { chain: kept.chain, seq: kept.seq },
        'the audit chain no longer holds the entry that was acknowledged to the agent',
      )
      tx.audit(chainOf(null), {
        actor: { type: 'agent', id: agent.id },
        action: 'audit.mismatch',
        subject: { type: 'chain', id: kept.chain },
        outcome: 'failed',
        manifestDigest: null,
        details: { keptSeq: kept.seq, keptHash: kept.hash, foundHash: entry?.hash ?? null },
      })
    }
  }
  return head ?? null
}
