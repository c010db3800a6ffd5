import type { AuditFact, AuditHead, OwnFact } from '@tenon/core'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Hub } from '../ground/hub.ts'
import type { Slots, TakenSlots } from '../ground/slots.ts'
import { type Fact, auditStatements } from './audit-append.ts'
import { isDatabaseAway, isDeadlock } from './database.ts'
import { isStalePlan, transactionOn, type Change, type Db, type TransactionConnection } from './statements.ts'

/** A change in the making: its statements, the audit entries and hints that belong to it. */
export interface Tx {
  db: Db
  /** A change whose answer nobody needs: it costs no round trip. Reads that follow see it. */
  write(change: Change): void
  /** ISO time of this change; the same for everything in it. */
  at: string
  /** Written in the same transaction, last, so that the head of a chain is locked for as short as can be. */
  audit(chain: string, fact: OwnFact): void
  /** The same for what an agent said, which a later one may call by an action that is not known here. */
  auditWord(chain: string, fact: AuditFact): void
  /** Sent after the commit. */
  nudge(...topics: string[]): void
  /** Slots of connected agents; who got a job hears of it after the commit. */
  slots: TakenSlots
}

/** What a change needs of the process that makes it. */
export interface Ground {
  pool: pg.Pool
  slots: Slots
  hub: Pick<Hub, 'nudge'>
  log: Logger
  now(): number
}

/** Heads of the install chains that this change moved, for acknowledgements. */
export interface Committed<T> {
  value: T
  heads: Map<string, AuditHead>
}

export async function transact<T>(context: Ground, work: (tx: Tx) => Promise<T>): Promise<T> {
  return (await transactWithHeads(context, work)).value
}

export async function transactWithHeads<T>(
  context: Ground,
  work: (tx: Tx) => Promise<T>,
): Promise<Committed<T>> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptOnce(context, work)
    } catch (error) {
      if (attempt === ATTEMPTS || !(isDeadlock(error) || isStalePlan(error))) throw error
      context.log.warn({ err: error, attempt }, 'a change could not be made; it is done again')
    }
  }
}

/** Postgres ended this one, so that another could go on or since a table has changed: nothing of it happened. */
const ATTEMPTS = 4

async function attemptOnce<T>(context: Ground, work: (tx: Tx) => Promise<T>): Promise<Committed<T>> {
  const client = await context.pool.connect()
  const connection = transactionOn(client)
  const slots = context.slots.open()
  let broken: Error | undefined
  try {
    const at = new Date(context.now()).toISOString()
    const { committed, topics } = await runOn(connection, at, slots, work)
    slots.committed()
    if (topics.size > 0) context.hub.nudge(topics)
    return committed
  } catch (thrown) {
    const cause = await connection.rollback().catch((reason: Error) => void (broken = reason))
    const error = cause ?? thrown
    if (broken || isDatabaseAway(error)) slots.inDoubt()
    else slots.rolledBack()
    if (isStalePlan(error)) broken = error as Error
    throw error
  } finally {
    client.release(broken)
  }
}

/** The audit entries travel with `commit`; when one fails, Postgres answers that commit with a rollback. */
async function runOn<T>(
  connection: TransactionConnection,
  at: string,
  slots: TakenSlots,
  work: (tx: Tx) => Promise<T>,
) {
  const topics = new Set<string>()
  const facts: Fact[] = []
  connection.begin()
  const value = await work({
    db: connection.db,
    write: (change) => connection.write(change),
    at,
    audit: (chain, fact) => facts.push({ chain, fact }),
    auditWord: (chain, fact) => facts.push({ chain, fact }),
    nudge: (...names) => names.forEach((name) => topics.add(name)),
    slots,
  })
  const heads = new Map<string, AuditHead>()
  for (const { rows } of await connection.commit<AuditHead>(auditStatements(at, facts)))
    for (const { chain, seq, hash } of rows) heads.set(chain, { chain, seq, hash })
  const committed: Committed<T> = { value, heads }
  return { committed, topics }
}
