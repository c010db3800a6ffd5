import { sql } from 'kysely'
import type { Tx } from '../store/transaction.ts'

/** A name is that of the living install: what is deprovisioned goes by its id from now on, written as names are. */
export async function freeName(tx: Tx, name: string): Promise<void> {
  await tx.db
    .updateTable('install')
    .set((eb) => ({ former_name: eb.ref('name'), name: sql<string>`replace(id, '_', '-')` }))
    .where('name', '=', name)
    .where('status', '=', 'deprovisioned')
    .where('former_name', 'is', null)
    .execute()
}
