import { SERVER_CHAIN } from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { appendEntries } from '../store/transaction.ts'

const BATCH = 500
const ONE_WRITER = 7_365_202_602

/** Seals what waits for the server's own chain, in order. One process at a time; the others find nothing to do. */
export async function sealServerChain(context: Context): Promise<number> {
  return context.db.transaction().execute(async (db) => {
    const { rows } = await sql<{
      mine: boolean
    }>`select pg_try_advisory_xact_lock(${ONE_WRITER}) as mine`.execute(db)
    if (!rows[0]?.mine) return 0
    const waiting = await db.selectFrom('audit_pending').selectAll().orderBy('id').limit(BATCH).execute()
    if (waiting.length === 0) return 0
    await appendEntries(db, SERVER_CHAIN, waiting)
    await db
      .deleteFrom('audit_pending')
      .where(
        'id',
        'in',
        waiting.map((row) => row.id),
      )
      .execute()
    return waiting.length
  })
}
