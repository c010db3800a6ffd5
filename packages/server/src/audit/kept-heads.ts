import type { AuditHead } from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'
import { chainOf } from './chains.ts'

/** The head of its install's chain that was last acknowledged to an agent. */
export interface ToldHead {
  agentId: string
  chain: string | null
  kept: AuditHead | null
}

/** An agent kept the head that was acknowledged to it: if the chain no longer holds it, somebody cut or changed the audit. */
export async function checkKeptHeads(
  context: Context,
  tx: Tx,
  told: readonly ToldHead[],
): Promise<Map<string, AuditHead>> {
  const chains = told.flatMap(({ chain }) => chain ?? [])
  if (chains.length === 0) return new Map()
  const known = told.flatMap(({ agentId, chain, kept }) =>
    kept && kept.chain === chain && kept.seq > 0 ? [{ agentId, kept }] : [],
  )
  const { rows } = await sql<AuditHead & { found: string | null }>`
    select head.chain, head.seq, head.hash, entry.hash as found from audit_head as head
    left join unnest(${known.map(({ kept }) => kept.chain)}::text[], ${known.map(({ kept }) => kept.seq)}::bigint[]) as k(chain, seq)
      on k.chain = head.chain
    left join audit_entry as entry on entry.chain = k.chain and entry.seq = k.seq
    where head.chain = any(${chains})`.execute(tx.db)
  const heads = new Map(rows.map((row) => [row.chain, row]))
  for (const { agentId, kept } of known) {
    const { chain, seq, hash } = kept
    const found = heads.get(chain)?.found ?? null
    if (found === hash) continue
    context.log.error(
      { chain, seq },
      'the audit chain no longer holds the entry that was acknowledged to the agent',
    )
    tx.audit(chainOf(null), {
      actor: { type: 'agent', id: agentId },
      action: 'audit.mismatch',
      subject: { type: 'chain', id: chain },
      outcome: 'failed',
      manifestDigest: null,
      details: { keptSeq: seq, keptHash: hash, foundHash: found },
    })
  }
  return new Map(rows.map(({ chain, seq, hash }) => [chain, { chain, seq, hash }]))
}
