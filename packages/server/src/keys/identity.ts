import { makeId } from '@tenon/core'
import { randomBytes } from 'node:crypto'
import type { Db } from '../store/database.ts'
import { newKeyRow } from './key-ring.ts'

/** The first process of a tenant makes its identity and its first key; the others find them. */
export async function ensureIdentity(db: Db, masterKey: Uint8Array, nowMs: number): Promise<string> {
  return db.transaction().execute(async (tx) => {
    const at = new Date(nowMs).toISOString()
    const made = await tx
      .insertInto('server_identity')
      .values({ server_id: makeId('process', nowMs, randomBytes(10)), created_at: at })
      .onConflict((c) => c.column('singleton').doNothing())
      .returning('server_id')
      .executeTakeFirst()
    if (made)
      await tx
        .insertInto('server_key')
        .values(newKeyRow(masterKey, nowMs, undefined))
        .execute()
    const row = await tx.selectFrom('server_identity').select('server_id').executeTakeFirstOrThrow()
    return row.server_id
  })
}

/** Undefined before the first start. */
export async function findIdentity(db: Db): Promise<string | undefined> {
  const row = await db.selectFrom('server_identity').select('server_id').executeTakeFirst()
  return row?.server_id
}
