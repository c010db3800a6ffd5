import { entryParts, SERVER_CHAIN, type AuditFact } from '@tenon/core'
import { sql } from 'kysely'
import type pg from 'pg'
import type { Db } from './database.ts'
import { statement } from './statements.ts'

export type Fact = { chain: string; fact: AuditFact }

/** At most two statements: entries of the installs' chains, and facts that wait for the server's own. */
export function auditStatements(at: string, facts: Fact[]): pg.QueryConfig[] {
  const rows = facts.map(({ chain, fact }) => ({ chain, ...entryParts(chain, fact, at) }))
  const own = rows.filter((row) => row.chain === SERVER_CHAIN)
  const installs = rows.filter((row) => row.chain !== SERVER_CHAIN).toSorted(byChain)
  return [
    ...(own.length > 0 ? [statement(INSERT_PENDING, [column(own, 'before'), column(own, 'after')])] : []),
    ...(installs.length > 0
      ? [
          statement(APPEND_ENTRIES, [
            column(installs, 'chain'),
            column(installs, 'before'),
            column(installs, 'after'),
          ]),
        ]
      : []),
  ]
}

/** Of rows with the texts before and after an entry's place in its chain. */
const INSERT_PENDING = `insert into audit_pending (before, after)
  select before, after from unnest($1::text[], $2::text[]) with ordinality as f(before, after, n) order by n`

const APPEND_ENTRIES = 'select * from audit_append($1::text[], $2::text[], $3::text[])'

/** In one order everywhere, so that two changes over the same chains cannot wait for each other in a circle. */
function byChain(a: { chain: string }, b: { chain: string }): number {
  return a.chain < b.chain ? -1 : a.chain > b.chain ? 1 : 0
}

function column<K extends string>(rows: Record<K, string>[], name: K): string[] {
  return rows.map((row) => row[name])
}

/**
 * The same for a statement that makes its own entries, as its last parts: `entries` has `id`, `chain` (null for the
 * server's own), `before` and `after`. Only what is selected from is done, so `appended` must be.
 */
export const APPEND_MADE_ENTRIES = `pending as (
    insert into audit_pending (before, after) select before, after from entries where chain is null order by id
  ), appended as (
    select heads.seq from (
      select array_agg(chain) as chain, array_agg(before) as before, array_agg(after) as after
      from (select * from entries where chain is not null order by chain collate "C", id) as ordered
    ) as all_entries cross join lateral audit_append(chain, before, after) as heads
  )`

/** What waits for the server's own chain joins it, in order. Answers how many there were. */
export async function appendPending(db: Db, atMost: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    with waiting as (
      delete from audit_pending where id in (select id from audit_pending order by id limit ${atMost})
      returning id, before, after
    ), ordered as (
      select array_agg(${SERVER_CHAIN}::text) as chain, array_agg(before) as before, array_agg(after) as after,
        count(*)::int as count
      from (select * from waiting order by id) as w
    )
    select count from ordered cross join lateral audit_append(chain, before, after) as head`.execute(db)
  return rows[0]?.count ?? 0
}
