import { sql } from 'kysely'
import type { Tx } from '../store/transaction.ts'

/** What was on an install that is deleted. */
export function forgetComponents(tx: Tx, installId: string): void {
  tx.write(sql`delete from install_component where install_id = ${installId}`)
}

/** When these components of an install are looked at for drift again; null: not by themselves. */
export function setDriftChecks(
  tx: Tx,
  installId: string,
  checks: readonly { component: string; at: string | null }[],
): void {
  tx.write(sql`
    update install_component as c set drift_check_at = d.at
    from unnest(${checks.map(({ component }) => component)}::text[], ${checks.map(({ at }) => at)}::timestamptz[])
      as d(component, at)
    where c.install_id = ${installId} and c.component = d.component`)
}
