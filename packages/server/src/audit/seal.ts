import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { appendPending } from '../store/audit-append.ts'

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
    return appendPending(db, BATCH)
  })
}
