import { entryParts, SERVER_CHAIN, type AuditFact, type AuditHead } from '@tenon/core'
import { sql, type Transaction } from 'kysely'
import type { Context } from '../context.ts'
import { isDeadlock } from './database.ts'
import type { Database } from './schema.ts'

/** A change in the making: its statements, the audit entries and hints that belong to it. */
export interface Tx {
  db: Transaction<Database>
  /** ISO time of this change; the same for everything in it. */
  at: string
  /** Written in the same transaction, last, so that the head of a chain is locked for as short as can be. */
  audit(chain: string, fact: AuditFact): void
  /** Sent after the commit. */
  nudge(...topics: string[]): void
}

/** Heads of the install chains that this change moved, for acknowledgements. */
export interface Committed<T> {
  value: T
  heads: Map<string, AuditHead>
}

export async function transact<T>(context: Context, work: (tx: Tx) => Promise<T>): Promise<T> {
  return (await transactWithHeads(context, work)).value
}

export async function transactWithHeads<T>(
  context: Context,
  work: (tx: Tx) => Promise<T>,
): Promise<Committed<T>> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptOnce(context, work)
    } catch (error) {
      if (attempt === ATTEMPTS || !isDeadlock(error)) throw error
      context.log.warn({ err: error, attempt }, 'two changes waited for each other; this one is done again')
    }
  }
}

/** Postgres ended this one so that the other could go on: nothing of it happened. */
const ATTEMPTS = 4

async function attemptOnce<T>(context: Context, work: (tx: Tx) => Promise<T>): Promise<Committed<T>> {
  const topics = new Set<string>()
  const committed = await context.db.transaction().execute(async (db) => {
    const facts: { chain: string; fact: AuditFact }[] = []
    const at = new Date(context.now()).toISOString()
    const value = await work({
      db,
      at,
      audit: (chain, fact) => facts.push({ chain, fact }),
      nudge: (...names) => names.forEach((name) => topics.add(name)),
    })
    return { value, heads: await writeAudit(db, at, facts) }
  })
  if (topics.size > 0) context.hub.nudge(topics)
  return committed
}

async function writeAudit(
  db: Transaction<Database>,
  at: string,
  facts: { chain: string; fact: AuditFact }[],
): Promise<Map<string, AuditHead>> {
  const heads = new Map<string, AuditHead>()
  const byChain = new Map<string, { before: string; after: string }[]>()
  for (const { chain, fact } of facts) {
    const parts = byChain.get(chain) ?? []
    parts.push(entryParts(chain, fact, at))
    byChain.set(chain, parts)
  }
  // In one order everywhere, so that two changes over the same chains cannot wait for each other in a circle.
  for (const chain of [...byChain.keys()].toSorted()) {
    const parts = byChain.get(chain)!
    if (chain === SERVER_CHAIN) {
      await db.insertInto('audit_pending').values(parts).execute()
      continue
    }
    heads.set(chain, await appendEntries(db, chain, parts))
  }
  return heads
}

export async function appendEntries(
  db: Transaction<Database>,
  chain: string,
  parts: { before: string; after: string }[],
): Promise<AuditHead> {
  const before = parts.map((p) => p.before)
  const after = parts.map((p) => p.after)
  const { rows } = await sql<{ seq: number; hash: string }>`
    select * from audit_append(${chain}, ${before}::text[], ${after}::text[])`.execute(db)
  return { chain, seq: rows[0]!.seq, hash: rows[0]!.hash }
}
