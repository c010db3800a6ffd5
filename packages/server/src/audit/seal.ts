import { SERVER_CHAIN } from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'

const BATCH = 1_000
const ONE_WRITER = 7_365_202_602

/** Seals what waits for the server's own chain, in order. One process at a time; the others find nothing to do. */
export async function sealServerChain(context: Context): Promise<number> {
  let total = 0
  for (;;) {
    const sealed = await sealBatch(context)
    total += sealed
    if (sealed < BATCH) return total
  }
}

async function sealBatch(context: Context): Promise<number> {
  return context.db.transaction().execute(async (db) => {
    const lock = sql<{ mine: boolean }>`select pg_try_advisory_xact_lock(${ONE_WRITER}) as mine`
    if (!(await lock.execute(db)).rows[0]?.mine) return 0
    const { rows } = await sql<{ count: number }>`
      with waiting as (
        delete from audit_pending where id in (select id from audit_pending order by id limit ${BATCH})
        returning id, before, after
      ), ordered as (
        select array_agg(${SERVER_CHAIN}::text) as chain, array_agg(before) as before, array_agg(after) as after,
          count(*)::int as count
        from (select * from waiting order by id) as w
      )
      select count from ordered cross join lateral audit_append(chain, before, after) as head`.execute(db)
    return rows[0]?.count ?? 0
  })
}
